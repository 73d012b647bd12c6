"""How long a client should wait before it polls again."""

from __future__ import annotations

from collections.abc import Sequence

from parcels.models import Parcel
from parcels.services import protect
from parcels.statuses import Status

# Seconds, while nothing is known of the carrier yet.
DEFAULT = 5


def retry_after(parcels: Sequence[Parcel]) -> int | None:
    """Return `Retry-After` in whole seconds; None when nothing is being announced any more.

    The recent median of the slowest carrier that is waited for; where its breaker is open, the
    default at least.
    """
    carriers = {parcel.carrier for parcel in parcels if parcel.status == Status.BEING_ANNOUNCED}
    return max((_of(carrier) for carrier in carriers), default=None)


def _of(carrier: str) -> int:
    guards = protect.guards_of(carrier)
    median = guards.recent().retry_after(DEFAULT)
    return median if guards.mode() == "closed" else max(median, DEFAULT)
