"""What a shop has set up: itself, its sender addresses, contracts and brands."""

from django.shortcuts import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from parcels.query import identifier, word
from parcels.shop import brand_payload, contract_payload, sender_address_payload, user_payload
from parcels.views.request import account_of


class UserView(APIView):
    """`/user`"""

    def get(self, request: Request) -> Response:
        """Show the account whose keys were used."""
        account = account_of(request)
        address = account.sender_address or account.sender_addresses.first()
        return Response({"user": user_payload(account, address)})


class SenderAddressesView(APIView):
    """`/user/addresses/sender`"""

    def get(self, request: Request) -> Response:
        """List where the account sends from."""
        addresses = account_of(request).sender_addresses.all()
        shown = [sender_address_payload(address) for address in addresses]
        return Response({"sender_addresses": shown})


class SenderAddressView(APIView):
    """`/user/addresses/sender/{id}`"""

    def get(self, request: Request, address_id: str) -> Response:
        """Show one address that the account sends from."""
        mine = account_of(request).sender_addresses
        address = get_object_or_404(mine, pk=identifier(address_id))
        return Response({"sender_address": sender_address_payload(address)})


class ContractsView(APIView):
    """`/contracts`"""

    def get(self, request: Request) -> Response:
        """List the account's contracts, on one page: there are as many as carriers."""
        contracts = account_of(request).contracts.order_by("pk")
        if carrier := word(request.query_params, "carrier"):
            contracts = contracts.filter(carrier=carrier)
        shown = [contract_payload(contract) for contract in contracts]
        return Response({"next": None, "previous": None, "contracts": shown})


class ContractView(APIView):
    """`/contracts/{id}`"""

    def get(self, request: Request, contract_id: str) -> Response:
        """Show a contract; without an envelope, as the dialect does."""
        mine = account_of(request).contracts
        return Response(contract_payload(get_object_or_404(mine, pk=identifier(contract_id))))


class BrandsView(APIView):
    """`/brands`"""

    def get(self, request: Request) -> Response:
        """List the account's brands."""
        brands = account_of(request).brands.all()
        return Response({"brands": [brand_payload(brand) for brand in brands]})
