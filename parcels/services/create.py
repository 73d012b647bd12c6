"""Create parcels, and answer: at once, or when the last label is there.

The two families meet here. Where a front holds clients, the answer is `offload.hold` and the
worker is free. Where none does, this worker announces by itself and waits for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic

from django.conf import settings
from django.db import connection, transaction
from django.http import HttpResponse

import offload
from parcels import metrics
from parcels.answers import Question, final_answer, late_answer, unfinished_answer
from parcels.models import Account, Announcement, Hold, Parcel
from parcels.selectors import in_order, waiting_announcements
from parcels.services.accept import Accepted, Mode, Order, accept
from parcels.services.announce import announce
from parcels.services.holds import open_hold
from parcels.services.patience import retry_after
from parcels.services.wake import wake_after_commit

# Calls that one waiting worker makes at once for a batch: a batch of 8 takes as long as one
# parcel, and a batch of 100 doesn't become 100 threads.
CALLS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """How the client asked. `wait` in seconds, None where it didn't say; see `Question`."""

    account: Account
    base: str
    path: str
    many: bool = False
    errors: str = ""
    wait: float | None = None

    def question(self, parcels: Sequence[Parcel], failed: list[dict[str, object]]) -> Question:
        """Return what the answer's wording depends on."""
        return Question(
            parcels=[parcel.pk for parcel in parcels],
            base=self.base,
            path=self.path,
            many=self.many,
            errors=self.errors,  # type: ignore[arg-type] # checked by the view
            preferred="" if self.wait is None else f"wait={self.seconds:.0f}",
            failed=failed,
        )

    @property
    def seconds(self) -> float:
        """Return how long to wait at most."""
        wanted = settings.WAIT_DEFAULT if self.wait is None else self.wait
        return float(min(wanted, settings.WAIT_MAXIMUM))


def create_parcels(
    *, asked: Asked, orders: Sequence[Order], failed: list[dict[str, object]]
) -> HttpResponse:
    """Store the orders, queue their announcements and answer.

    `failed` are the invalid ones of a batch with errors=verbose, for the answer.

    Raises:
        ValidationError, ReferenceTaken: see `accept`.
    """
    synchronous = any(order.mode is Mode.SYNC for order in orders)
    announces_here = synchronous and not _queues(asked)
    hold: Hold | None = None

    def note_hold(accepted: Accepted) -> None:
        nonlocal hold
        awaited = _awaited(accepted)
        if synchronous and not announces_here and awaited:
            question = asked.question(accepted.parcels, failed)
            hold = open_hold(
                account=asked.account,
                question=question,
                announcements=awaited,
                wait=asked.seconds,
            )

    accepted = accept(
        account=asked.account, orders=orders, inside=note_hold, wake=not announces_here
    )
    question = asked.question(accepted.parcels, failed)
    if not synchronous:
        return unfinished_answer(question, accepted.parcels, retry_after(accepted.parcels))
    if announces_here:
        return _announce_here(asked, question, accepted)
    if hold is None:
        return final_answer(question, accepted.parcels)
    return wait_for(asked, question, hold, accepted.parcels)


def answer_parcel(*, asked: Asked, parcel: Parcel) -> HttpResponse:
    """Answer a GET with `wait=N`: when the parcel's announcement ends, or then with what is."""
    question = asked.question([parcel], [])
    with transaction.atomic():
        waiting = waiting_announcements([parcel.pk]) if asked.seconds else []
        hold = (
            open_hold(
                account=asked.account,
                question=question,
                announcements=waiting,
                wait=asked.seconds,
            )
            if waiting
            else None
        )
    if hold and waiting_announcements([parcel.pk]):
        return wait_for(asked, question, hold, [parcel])
    parcels = in_order([parcel.pk]) or [parcel]
    return unfinished_answer(question, parcels, retry_after(parcels))


def wait_for(
    asked: Asked, question: Question, hold: Hold, parcels: Sequence[Parcel]
) -> HttpResponse:
    """Wait for the hold's answer: at the front where there is one, else in this worker."""
    late = late_answer(question, parcels, retry_after(parcels))
    if not asked.seconds:
        return late
    if offload.holds_clients():
        return offload.hold(hold.pk, late=late, wait=asked.seconds, account=str(asked.account.pk))
    connection.close()  # nobody waits with a database connection in hand
    with metrics.waiting():
        answer = offload.wait(hold.pk, asked.seconds)
    if answer is None:
        parcels = in_order(question.parcels)
        answer = late_answer(question, parcels, retry_after(parcels))
    return answer


def _queues(asked: Asked) -> bool:
    """Tell whether a worker of the queue announces, and not this one.

    A client that won't wait as long as a call may take must not be served by a call that can't be
    cut short: what was sent is bought.
    """
    return offload.holds_clients() or asked.seconds < settings.CARRIER_CALL_DEADLINE


def _awaited(accepted: Accepted) -> list[Announcement]:
    """Return what a synchronous answer waits for: new announcements, and old ones joined."""
    new = {announcement.parcel_id for announcement in accepted.announcements}
    old = [parcel.pk for parcel in accepted.parcels if parcel.pk not in new]
    return accepted.announcements + (waiting_announcements(old) if old else [])


def _announce_here(asked: Asked, question: Question, accepted: Accepted) -> HttpResponse:
    """Announce in this worker, then wait for what is still open: an unknown, a queued one."""
    end = monotonic() + asked.seconds
    with metrics.waiting():
        _announce_all([announcement.pk for announcement in accepted.announcements])
    with transaction.atomic():
        waiting = waiting_announcements(question.parcels)
        left = max(end - monotonic(), 0)
        hold = None
        if waiting:
            wake_after_commit(waiting)
            hold = open_hold(
                account=asked.account, question=question, announcements=waiting, wait=left
            )
    if hold and waiting_announcements(question.parcels):
        rest = Asked(asked.account, asked.base, asked.path, asked.many, asked.errors, left)
        return wait_for(rest, question, hold, in_order(question.parcels))
    return final_answer(question, in_order(question.parcels))


def _announce_all(announcement_ids: Sequence[int]) -> None:
    if len(announcement_ids) == 1:
        announce(announcement_ids[0])
        return
    with ThreadPoolExecutor(CALLS_AT_ONCE) as pool:
        list(pool.map(_announce_in_thread, announcement_ids))


def _announce_in_thread(announcement_id: int) -> None:
    try:
        announce(announcement_id)
    finally:
        connection.close()  # each thread has its own; nobody else would close it
