"""What a shop has set up: itself, its sender addresses, brands and integrations."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from parcels.selectors import brands_of, integrations_of, sender_addresses_of
from parcels.shop import (
    brand_payload,
    integration_payload,
    sender_address_payload,
    user_payload,
)
from parcels.views.request import account_of


class UserView(APIView):
    """`/user`"""

    def get(self, request: Request) -> Response:
        """Show the account whose keys were used."""
        account = account_of(request)
        address = account.sender_address or sender_addresses_of(account).first()
        return Response({"user": user_payload(account, address)})


class SenderAddressesView(APIView):
    """`/user/addresses/sender`"""

    def get(self, request: Request) -> Response:
        """List where the account sends from."""
        addresses = sender_addresses_of(account_of(request))
        shown = [sender_address_payload(address) for address in addresses]
        return Response({"sender_addresses": shown})


class BrandsView(APIView):
    """`/brands`"""

    def get(self, request: Request) -> Response:
        """List the account's brands."""
        brands = brands_of(account_of(request))
        return Response({"brands": [brand_payload(brand) for brand in brands]})


class IntegrationsView(APIView):
    """`/integrations`"""

    def get(self, request: Request) -> Response:
        """List the shop systems that are connected; a bare array."""
        integrations = integrations_of(account_of(request))
        return Response([integration_payload(integration) for integration in integrations])
