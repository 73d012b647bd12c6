"""How long a client should wait before it looks again."""

from __future__ import annotations

from collections.abc import Sequence

from parcels.models import Parcel
from parcels.statuses import Status

# Seconds, while nothing is known of the carrier yet.
DEFAULT = 5


def retry_after(parcels: Sequence[Parcel]) -> int | None:
    """Return `Retry-After` in seconds; None when nothing is being announced any more."""
    if not any(parcel.status == Status.BEING_ANNOUNCED for parcel in parcels):
        return None
    return DEFAULT
