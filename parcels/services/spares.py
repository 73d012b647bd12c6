"""Void a label that was bought beside the one that is kept, within the carrier's guards."""

from __future__ import annotations

import logging
import time
from time import monotonic

from django.conf import settings
from django.db import connection

from carriers import transport
from carriers.base import Purchase
from carriers.outcomes import NotSent, Voided, VoidResult
from parcels.models import Attempt
from parcels.services.announce import Job, enter, leave
from parcels.services.record import outcome_class, reason_of

log = logging.getLogger(__name__)

# Seconds that room at the carrier is waited for. Two tries at a full bulkhead: a worker or an
# operator's request must not be kept for longer, and the attempts show what is left to be done.
PATIENCE = 5.0


def void_spare(job: Job, *, carrier_id: str, tracking_number: str, fence: int) -> None:
    """Ask the carrier to take a spare label back; its answer is kept in the attempts."""
    connection.close()
    started = monotonic()
    result = (
        _call(job, carrier_id, tracking_number) if _enter_patiently(job) else NotSent("no_room")
    )
    if not isinstance(result, Voided):
        log.error("a spare label of %s is not voided", job.announcement.reference)
    Attempt.objects.create(
        announcement=job.announcement,
        kind="void",
        fence=fence,
        duration=round(monotonic() - started, 4),
        outcome="voided" if isinstance(result, Voided) else outcome_class(result),
        detail="" if isinstance(result, Voided) else reason_of(result),
        carrier_id=carrier_id,
        tracking_number=tracking_number,
    )


def _enter_patiently(job: Job) -> bool:
    end = monotonic() + PATIENCE
    while (delay := enter(job)) is not None:
        if monotonic() + delay > end:
            return False
        time.sleep(delay)
    return True


def _call(job: Job, carrier_id: str, tracking_number: str) -> VoidResult:
    purchase = Purchase(job.announcement.reference, carrier_id, tracking_number)
    started = monotonic()
    result: VoidResult | None = None
    try:
        result = transport.perform(
            job.carrier.void(purchase, job.consignment.credentials),
            job.url,
            settings.CARRIER_CALL_DEADLINE,
            settings.CARRIER_CONNECT_TIMEOUT,
        )
    finally:
        leave(job, result, monotonic() - started, buys=False)
    return result
