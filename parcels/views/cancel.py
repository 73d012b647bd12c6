"""Cancel a parcel."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from parcels.query import identifier
from parcels.services.cancel import cancel
from parcels.views.request import account_of


class CancelView(APIView):
    """`/parcels/{id}/cancel`"""

    def post(self, request: Request, parcel_id: str) -> Response:
        """Cancel the parcel, or queue that its carrier is asked; a body is not read."""
        verdict = cancel(account=account_of(request), parcel_id=identifier(parcel_id))
        return Response({"status": verdict.status, "message": verdict.message}, verdict.code)
