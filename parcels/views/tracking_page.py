"""The page that a shop's customer follows a parcel on. Its address alone opens it."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from parcels.models import Parcel
from parcels.representation import parcel_id_of
from parcels.statuses import status_payload
from parcels.tracking import journey

# The address alone gives access: no cache should store it, no referrer pass it on.
HEADERS = {
    "X-Robots-Tag": "noindex, nofollow",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}


@require_safe
def tracking_page(request: HttpRequest, token: str) -> HttpResponse:
    """Show the parcel's steps, newest first, in our words: a carrier's may name a neighbour."""
    parcel_id = parcel_id_of(token)
    if parcel_id is None:  # before the database is asked: a guess costs it nothing
        raise Http404
    parcel = get_object_or_404(Parcel.objects.exclude(tracking_number=""), pk=parcel_id)
    steps = [
        (step.at, status_payload(step.status)["message"])
        for step in journey(parcel, parcel.tracking_events.all())
    ]
    values = {"number": parcel.tracking_number, "now": status_payload(parcel.status)["message"]}
    response = render(request, "parcels/tracking.html", values | {"steps": steps})
    for name, value in HEADERS.items():
        response[name] = value
    return response
