"""How the carriers are."""

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from carriers import registry
from carriers.base import Carrier
from parcels.services.carrier_guards import guards_of


class CarriersView(APIView):
    """`/carriers`"""

    def get(self, request: Request) -> Response:
        """Show each carrier's breaker, its calls in flight and its recent purchases."""
        return Response({"carriers": [health_payload(each) for each in registry.CARRIERS.values()]})


def health_payload(carrier: Carrier) -> dict[str, object]:
    """Return a carrier's health: durations in seconds, null where there were no calls."""
    standing = guards_of(carrier.code)
    recent = standing.recent()
    return {
        "code": carrier.code,
        "name": carrier.name,
        "breaker": standing.mode(),
        "in_flight": standing.in_flight(),
        "limit": standing.limit,
        "recent": {
            "calls": recent.count,
            "p50": recent.p50,
            "p95": recent.p95,
            "error_share": round(recent.error_share, 4),
        },
    }
