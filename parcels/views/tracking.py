"""Where a parcel has been, and what was tried at its carrier."""

from urllib.parse import urlencode, urlsplit

from django.shortcuts import get_object_or_404
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from parcels.models import Attempt
from parcels.query import identifier
from parcels.selectors import parcel_by_tracking, parcels_of, return_portal_of
from parcels.tracking import tracking_payload
from parcels.views.request import account_of, base_url


class TrackingView(APIView):
    """`/tracking/{number}`"""

    def get(self, request: Request, number: str) -> Response:
        """Show the parcel's steps, newest first."""
        parcel = parcel_by_tracking(account_of(request), number)
        if parcel is None:
            raise NotFound("No Parcel matches the given query.")
        events = parcel.tracking_events.all()
        return Response(tracking_payload(parcel, events, base_url(request)))


class AttemptsView(APIView):
    """`/parcels/{id}/attempts`"""

    def get(self, request: Request, parcel_id: str) -> Response:
        """List each attempt at the carrier, oldest first; without personal data."""
        parcel = get_object_or_404(parcels_of(account_of(request)), pk=identifier(parcel_id))
        attempts = Attempt.objects.filter(announcement__parcel=parcel)
        shown = [_attempt_payload(each) for each in attempts.select_related("announcement")]
        return Response({"attempts": shown})


class ReturnPortalView(APIView):
    """`/parcels/{id}/return_portal_url`"""

    def get(self, request: Request, parcel_id: str) -> Response:
        """Show where the parcel's receiver asks for a return."""
        parcel = get_object_or_404(parcels_of(account_of(request)), pk=identifier(parcel_id))
        portal = return_portal_of(parcel)
        if portal is None:
            raise NotFound("There is no return portal for this parcel.")
        address = urlsplit(portal)
        number = urlencode({"tracking_number": parcel.tracking_number})
        query = f"{address.query}&{number}" if address.query else number
        return Response({"url": address._replace(query=query).geturl()})


def _attempt_payload(attempt: Attempt) -> dict[str, object]:
    return {
        "kind": attempt.kind,
        "date": attempt.date_created.isoformat(),
        "sent_at": attempt.sent_at and attempt.sent_at.isoformat(),
        "duration": attempt.duration,
        "outcome": attempt.outcome,
        # A code of ours or the carrier's; its free text, which may repeat an address, isn't kept.
        # A review's names the person who decided, for operators only.
        "reason": "" if attempt.kind == "review" else attempt.detail,
        "reference": attempt.announcement.reference,
        "carrier": attempt.announcement.carrier,
        "carrier_id": attempt.carrier_id,
        "tracking_number": attempt.tracking_number,
    }
