"""Call a carrier for an announcement: read its data, get permission, call, give permission back.

All calls go this way, except the breaker's probes (`protect`). No transaction, row lock or database
connection is held while waiting for the carrier.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from django.conf import settings
from django.db import Error, connection

from carriers import registry, transport, transport_async
from carriers.base import Carrier, Consignment, Steps
from carriers.call import always
from carriers.outcomes import LookupResult, NotSent, Outcome, Unknown, VoidResult
from parcels import faults, metrics
from parcels.consignment import consignment, contracts_of_calls, credentials_hashes
from parcels.models import Announcement, CarrierContract, Parcel
from parcels.services import protect

log = logging.getLogger(__name__)
T = TypeVar("T", Outcome, LookupResult, VoidResult)

# Seconds, beside those to connect, between the send guard and a purchase's first byte: a process
# that was paused longer may have lost its lease.
GUARD_WINDOW = 1.0
# For the control of the total deadline: longer than any run.
_NO_DEADLINE = 86_400.0


@dataclass(slots=True)
class Job:
    """A claimed announcement and all that a call about it needs.

    `guarded_at` by this process' monotonic clock. `changed`: the contract's credentials are others
    than those of the first purchase, so that the carrier may answer as if it had sold nothing.
    """

    announcement: Announcement
    carrier: Carrier
    consignment: Consignment
    parcel: Parcel
    contract: CarrierContract | None
    credentials_hash: str
    changed: bool
    guarded_at: float = 0.0
    permission: protect.Permit | None = None

    @property
    def credentials(self) -> dict[str, str]:
        """Return the credentials of every call about this announcement."""
        return dict(self.consignment.credentials)

    def may_buy(self) -> bool:
        """Tell, right before a purchase's first byte, whether this process was paused.

        The guard's row was written before connecting; the monotonic clock continues during a pause.
        """
        faults.purchase_leaves()
        in_time = monotonic() - self.guarded_at <= settings.CARRIER_CONNECT_TIMEOUT + GUARD_WINDOW
        return in_time or faults.is_off("send_guard")


def job_for(announcement: Announcement) -> Job | None:
    """Prepare a call about one; None if it can't be prepared."""
    return next(iter(jobs_for([announcement])), None)


def jobs_for(announcements: Sequence[Announcement]) -> list[Job]:
    """Prepare calls about these; one that can't be prepared is logged and left out.

    `consignment.calls_about` has read them. A database error is not the row's fault: it is raised.
    """
    try:
        contracts = contracts_of_calls(announcements)
        return [_job(each, contracts[each.pk]) for each in announcements]
    except Error:
        raise
    except Exception:
        if len(announcements) > 1:
            return [job for each in announcements for job in jobs_for([each])]
        log.exception("announcement %s can't be prepared", announcements[0].reference)
        return []


def _job(announcement: Announcement, contract: CarrierContract | None) -> Job:
    parcel = announcement.parcel
    faults.poison(parcel.company_name)
    ours = settings.HOUSE_CREDENTIALS[announcement.carrier]
    credentials = dict(contract.credentials if contract else ours)
    hashes = credentials_hashes(credentials)
    changed = bool(announcement.credentials_hash) and announcement.credentials_hash not in hashes
    return Job(
        announcement,
        registry.carrier(announcement.carrier),
        consignment(announcement, parcel, credentials),
        parcel,
        contract,
        hashes[0],
        changed and not faults.is_off("credentials"),
    )


def enter(jobs: Sequence[Job]) -> dict[int, NotSent]:
    """Take the permissions to call the carriers; return why not, by announcement, for the others.

    Each with when to ask again.
    """
    refused: dict[int, NotSent] = {}
    for carrier in {job.carrier.code for job in jobs}:
        own = [job for job in jobs if job.carrier.code == carrier]
        answers = protect.enter(carrier, [job.announcement.account_id for job in own])
        for job, answer in zip(own, answers, strict=True):
            if isinstance(answer, protect.TurnedAway):
                metrics.turned_away(carrier, answer.reason)
                refused[job.announcement.pk] = NotSent(answer.reason, retry_after=answer.delay)
            else:
                job.permission = answer
    return refused


def sleep_for(refusal: NotSent) -> float:
    """Return the seconds until an announcement that was turned away is due again.

    At once if the breaker refused: the sweeper wakes none while it is open, and then no more than
    its ramp admits. A row that waits longer would miss the start of the ramp.
    """
    return 0.0 if refusal.reason == "breaker_open" else refusal.retry_after


def leave(
    ended: Iterable[tuple[Job, Outcome | LookupResult | VoidResult | None, float]],
    *,
    buys: bool = True,
) -> None:
    """Give permissions back, each with its call's result and duration; None: there was no call."""
    given_back = []
    for job, result, duration in ended:
        permission, job.permission = job.permission, None
        if permission is not None:
            key = job.announcement.reference
            given_back.append(protect.Ended(permission, result, duration, buys, key))
    protect.leave(*given_back)


def call_carrier(
    job: Job, steps: Steps[T], *, buys: bool = False
) -> tuple[T | NotSent | Unknown, float]:
    """Call the carrier and wait; return the result and the seconds that it took.

    Within the permission that the job has, else within one of its own. A purchase's was taken
    before its send guard.
    """
    if job.permission is None and (refused := enter([job])):
        steps.close()
        return refused[job.announcement.pk], 0.0
    connection.close()
    started = monotonic()
    result: T | NotSent | Unknown | None = None
    try:
        result = transport.perform(
            steps,
            _url(job),
            _deadline(),
            settings.CARRIER_CONNECT_TIMEOUT,
            may_buy=job.may_buy if buys else always,
        )
    finally:
        duration = monotonic() - started
        leave([(job, result, duration)], buys=buys)
    return result, duration


async def buy_async(job: Job) -> tuple[Outcome, float]:
    """Buy in a coroutine, within the permission that the job has; `leave` gives it back."""
    started = monotonic()
    outcome = await transport_async.perform(
        job.carrier.announce(job.consignment),
        _url(job),
        _deadline(),
        settings.CARRIER_CONNECT_TIMEOUT,
        may_buy=job.may_buy,
    )
    return outcome, monotonic() - started


def _url(job: Job) -> str:
    return str(settings.CARRIERS[job.carrier.code]["url"])


def _deadline() -> float:
    return _NO_DEADLINE if faults.is_off("deadline") else settings.CARRIER_CALL_DEADLINE
