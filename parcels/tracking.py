"""Where a parcel has been, as the dialect shows it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from parcels.models import Parcel, TrackingEvent
from parcels.representation import tracking_url
from parcels.statuses import Status

# Several statuses are one stage for the person who follows the parcel.
_PARENTS: dict[int, str] = {
    Status.ANNOUNCED: "announced",
    Status.EN_ROUTE_TO_SORTING_CENTER: "en-route-to-sorting-center",
    Status.DELIVERY_DELAYED: "delivery-delayed",
    Status.SORTED: "to-sorting",
    Status.NOT_SORTED: "unsorted",
    Status.BEING_SORTED: "to-sorting",
    Status.DELIVERY_ATTEMPT_FAILED: "delivery-attempt-failed",
    Status.DELIVERED: "delivered",
    Status.AWAITING_CUSTOMER_PICKUP: "awaiting-customer-pickup",
    Status.ANNOUNCED_NOT_COLLECTED: "announced-uncollected",
    Status.ERROR_COLLECTING: "collect-error",
    Status.PICKED_UP_BY_DRIVER: "shipment-picked-up-by-driver",
    Status.UNABLE_TO_DELIVER: "undeliverable",
    Status.PARCEL_EN_ROUTE: "shipment-on-route",
    Status.DRIVER_EN_ROUTE: "driver-on-route",
    Status.COLLECTED_BY_CUSTOMER: "shipment-collected-by-customer",
    Status.CANCELLATION_FAILED: "cancellation-failed",
    Status.NO_LABEL: "no-label",
    Status.READY_TO_SEND: "ready-to-send",
    Status.BEING_ANNOUNCED: "announcing",
    Status.ANNOUNCEMENT_FAILED: "announcement-failed",
    Status.CANCELLED_UPSTREAM: "cancelled-upstream",
    Status.CANCELLATION_REQUESTED: "cancelling",
    Status.CANCELLED: "cancelled",
    Status.SUBMITTING_CANCELLATION: "cancelling-upstream",
    Status.AT_CUSTOMS: "at-customs",
    Status.AT_SORTING_CENTRE: "at-sorting-centre",
    Status.REFUSED_BY_RECIPIENT: "refused-by-recipient",
    Status.RETURNED_TO_SENDER: "returned-to-sender",
    Status.DELIVERY_METHOD_CHANGED: "delivery-method-changed",
    Status.DELIVERY_DATE_CHANGED: "delivery-date-changed",
    Status.DELIVERY_ADDRESS_CHANGED: "delivery-address-changed",
    Status.EXCEPTION: "exception",
    Status.ADDRESS_INVALID: "address-invalid",
}


class Step(NamedTuple):
    """One step of a parcel. `message` is its status' label: a carrier's own may name people."""

    key: str
    status: int
    message: str
    at: datetime


def parent_status(status: int) -> str:
    """Return the slug of the stage that a status belongs to."""
    return _PARENTS.get(status, "unknown")


def tracking_payload(parcel: Parcel, events: Iterable[TrackingEvent], base: str) -> dict[str, Any]:
    """Return the parcel's journey, newest step first; `events` come in that order."""
    url = tracking_url(parcel, base)
    return {
        "parcel_id": str(parcel.pk),
        "carrier_code": parcel.carrier,
        "carrier_tracking_url": url,
        "sendcloud_tracking_url": url,
        "tracking_number": parcel.tracking_number,
        "created_at": parcel.date_created.isoformat(),
        "is_return": parcel.is_return,
        "is_to_service_point": parcel.to_service_point is not None,
        "is_mail_box": False,
        "expected_delivery_date": None,
        "statuses": [
            {
                "carrier_update_timestamp": step.at.isoformat(),
                "parcel_status_history_id": step.key,
                "parent_status": parent_status(step.status),
                "carrier_code": parcel.carrier,
                "carrier_message": step.message,
            }
            for step in journey(parcel, events)
        ],
    }


def journey(parcel: Parcel, events: Iterable[TrackingEvent]) -> list[Step]:
    """Return the parcel's steps, newest first; `events` come in that order."""
    steps = [Step(str(event.pk), event.status, event.message, event.at) for event in events]
    # These two are known: no row is written for what every parcel goes through.
    begun = parcel.announcements.values_list("date_created", flat=True).last()
    for status, at in (
        (Status.READY_TO_SEND, parcel.date_announced),
        (Status.BEING_ANNOUNCED, begun),
    ):
        if at:
            steps.append(Step(f"{parcel.pk}-{status}", status, status.label, at))
    # Stable: of two steps in the same instant the one that came later stays in front.
    steps.sort(key=lambda step: step.at, reverse=True)
    return steps
