"""The body of a webhook."""

import json
from datetime import datetime
from typing import Any

from parcels.models import Parcel, WebhookEvent
from parcels.representation import parcel_payload
from parcels.statuses import status_payload


def body_of(event: WebhookEvent, parcel: Parcel, base: str) -> bytes:
    """Return the exact bytes to send and to sign.

    The parcel is as a GET shows it now, its status as the event has it: otherwise the news of a
    status that was short would get lost. Python's default separators and no spaces of our own:
    some published receivers verify the raw bytes, others dump the parsed JSON again.
    """
    payload: dict[str, Any] = {
        "action": event.action,
        "timestamp": _milliseconds(event.date_created),
        "carrier_status_change_timestamp": _milliseconds(event.carrier_changed_at),
        "parcel": parcel_payload(parcel, base) | {"status": status_payload(event.status)},
    }
    return json.dumps(payload).encode()


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)
