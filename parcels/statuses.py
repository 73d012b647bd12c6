"""The statuses of the dialect: number and message."""

from functools import lru_cache

from django.db import models


class Status(models.IntegerChoices):
    """What a parcel's `status.id` can be, in the order of `GET /parcels/statuses`."""

    ANNOUNCED = 1, "Announced"
    EN_ROUTE_TO_SORTING_CENTER = 3, "En route to sorting center"
    DELIVERY_DELAYED = 4, "Delivery delayed"
    SORTED = 5, "Sorted"
    NOT_SORTED = 6, "Not sorted"
    BEING_SORTED = 7, "Being sorted"
    DELIVERY_ATTEMPT_FAILED = 8, "Delivery attempt failed"
    DELIVERED = 11, "Delivered"
    AWAITING_CUSTOMER_PICKUP = 12, "Awaiting customer pickup"
    ANNOUNCED_NOT_COLLECTED = 13, "Announced: not collected"
    ERROR_COLLECTING = 15, "Error collecting"
    PICKED_UP_BY_DRIVER = 22, "Shipment picked up by driver"
    UNABLE_TO_DELIVER = 80, "Unable to deliver"
    PARCEL_EN_ROUTE = 91, "Parcel en route"
    DRIVER_EN_ROUTE = 92, "Driver en route"
    COLLECTED_BY_CUSTOMER = 93, "Shipment collected by customer"
    CANCELLATION_FAILED = 94, "Parcel cancellation failed"
    NO_LABEL = 999, "No label"
    READY_TO_SEND = 1000, "Ready to send"
    BEING_ANNOUNCED = 1001, "Being announced"
    ANNOUNCEMENT_FAILED = 1002, "Announcement failed"
    UNKNOWN_STATUS = 1337, "Unknown status"
    CANCELLED_UPSTREAM = 1998, "Cancelled upstream"
    CANCELLATION_REQUESTED = 1999, "Cancellation requested"
    CANCELLED = 2000, "Cancelled"
    SUBMITTING_CANCELLATION = 2001, "Submitting cancellation request"
    AT_CUSTOMS = 62989, "At Customs"
    AT_SORTING_CENTRE = 62990, "At sorting centre"
    REFUSED_BY_RECIPIENT = 62991, "Refused by recipient"
    RETURNED_TO_SENDER = 62992, "Returned to sender"
    DELIVERY_METHOD_CHANGED = 62993, "Delivery method changed"
    DELIVERY_DATE_CHANGED = 62994, "Delivery date changed"
    DELIVERY_ADDRESS_CHANGED = 62995, "Delivery address changed"
    EXCEPTION = 62996, "Exception"
    ADDRESS_INVALID = 62997, "Address invalid"


# No label is shown in these: there is none yet, or it was voided and must not be printed.
WITHOUT_LABEL = (
    Status.NO_LABEL,
    Status.BEING_ANNOUNCED,
    Status.ANNOUNCEMENT_FAILED,
    Status.CANCELLED,
    Status.CANCELLED_UPSTREAM,
)


@lru_cache(maxsize=64)
def status_payload(status: int) -> dict[str, object]:
    """Return `{"id", "message"}`; a number that this version doesn't know is "Unknown status"."""
    try:
        known = Status(status)
    except ValueError:
        known = Status.UNKNOWN_STATUS
    return {"id": known.value, "message": known.label}
