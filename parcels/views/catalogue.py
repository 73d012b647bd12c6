"""Shipping methods."""

from django_countries import countries
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from carriers import registry
from carriers.methods import ShippingMethod
from parcels.filters import method_filter
from parcels.query import identifier
from parcels.representation import country_payload
from parcels.views.request import account_of


class ShippingMethodsView(APIView):
    """`/shipping_methods`"""

    def get(self, request: Request) -> Response:
        """List the shipping methods that fit the query."""
        fits = method_filter(account_of(request), request.query_params)
        methods = filter(fits, registry.SHIPPING_METHODS.values())
        return Response({"shipping_methods": [method_payload(method) for method in methods]})


class ShippingMethodView(APIView):
    """`/shipping_methods/{id}`"""

    def get(self, request: Request, method_id: str) -> Response:
        """Show one shipping method."""
        method = registry.SHIPPING_METHODS.get(identifier(method_id))
        if method is None or not method_filter(account_of(request), request.query_params)(method):
            raise NotFound("No ShippingMethod matches the given query.")
        return Response({"shipping_method": method_payload(method)})


def method_payload(method: ShippingMethod) -> dict[str, object]:
    """Return a shipping method as the dialect shows it."""
    price = float(method.price)
    return {
        "id": method.id,
        "name": method.name,
        "carrier": method.carrier,
        "min_weight": method.min_weight,
        "max_weight": method.max_weight,
        "service_point_input": method.service_point_input,
        "price": price,
        "countries": [
            # The vendor numbers countries by a list of its own; ISO 3166's numbers are public.
            {"id": countries.numeric(code), "price": price, **country_payload(code)}
            for code in method.countries
        ],
    }
