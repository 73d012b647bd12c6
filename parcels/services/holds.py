"""Waiting clients: how they asked, their holds, and answering them.

Both kinds of strategy use this: a front holds the client, or this worker waits.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from time import monotonic

from django.conf import settings
from django.db import connection, transaction
from django.http import HttpResponse
from django.utils import timezone

import offload
from parcels import metrics
from parcels.answers import Question, final_answer, late_answer
from parcels.models import Account, Announcement, Hold, Parcel
from parcels.models.announcement import OPEN
from parcels.selectors import in_order
from parcels.services.awaiting import PendingResponse, in_thread, views_are_coroutines
from parcels.services.protect import retry_after
from parcels.services.rows import inserting
from parcels.services.waits import thread_to_wait
from parcels.statuses import Status

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """How the client asked. `wait` in seconds, None where it didn't say; see `Question`.

    `asked_at` by the monotonic clock: when the request was there.
    """

    account: Account
    base: str
    path: str
    many: bool = False
    errors: str = ""
    wait: float | None = None
    asked_at: float = field(default_factory=monotonic, compare=False)

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

    @property
    def left(self) -> float:
        """Return how much of that is left: a slow store takes part of it."""
        return max(self.seconds - (monotonic() - self.asked_at), 0.0)


def open_hold(
    *, account: Account, question: Question, announcements: Sequence[Announcement], wait: float
) -> Hold:
    """Store which announcements a client waits for, for at most `wait` seconds.

    Call it in the transaction that writes the announcements, or check afterwards whether they have
    ended: an outcome that was recorded earlier finds no hold.
    """
    with transaction.atomic(savepoint=False):
        hold = Hold(
            id=uuid.uuid4().hex,
            account=account,
            question=asdict(question),
            deadline_at=timezone.now() + timedelta(seconds=wait),
        )
        # Not add(): a new hold has none that would have to be looked for first.
        Waiting = Hold.announcements.through
        with inserting([hold]):
            Waiting.objects.bulk_create(
                Waiting(hold_id=hold.pk, announcement=announcement)
                for announcement in announcements
            )
    return hold


def held_off(parcels: Sequence[Parcel], out: set[str]) -> bool:
    """Tell whether a label can't come now, because a carrier's breaker is open.

    Then the client doesn't wait: stored, 202, announced later.
    """
    carriers = {parcel.carrier for parcel in parcels if parcel.status == Status.BEING_ANNOUNCED}
    return not out.isdisjoint(carriers)


def wait_for(
    asked: Asked, question: Question, hold: Hold, parcels: Sequence[Parcel], *, buys: bool = True
) -> HttpResponse:
    """Wait for the hold's answer: at the front where there is one, else in this worker.

    Where the account has its share of this worker's threads, the late answer comes at once.
    """
    late = _late(question, parcels)
    if not asked.seconds:
        return late
    if offload.holds_clients():
        return offload.hold(hold.pk, late=late, wait=asked.left, account=str(asked.account.pk))
    if views_are_coroutines():
        return PendingResponse(lambda: _wait_in_loop(asked, question, hold))
    connection.close()  # no database connection is held while waiting
    with thread_to_wait(asked.account.pk, buys=buys) as free:
        if not free:
            return late
        with metrics.waiting():
            answer = offload.wait(hold.pk, asked.left)
    return _late_now(question) if answer is None else answer


async def _wait_in_loop(asked: Asked, question: Question, hold: Hold) -> HttpResponse:
    with metrics.waiting():
        answer = await offload.wait_async(hold.pk, asked.left)
    return await in_thread(_late_now, question) if answer is None else answer


def _late_now(question: Question) -> HttpResponse:
    return _late(question, in_order(question.parcels))


def release_holds(announcement_ids: Sequence[int], known: Iterable[Parcel] = ()) -> None:
    """Answer each client that waited for one of these as its last one. Call after commit.

    `known` are parcels as they are now: they are not read again.
    """
    release(_settled(announcement_ids), known)


def _settled(announcement_ids: Sequence[int]) -> list[Hold]:
    """Return the holds that wait for these announcements and whose last one has ended."""
    holds = list(
        Hold.objects.filter(announcements__in=announcement_ids, released_at=None).distinct()
    )
    # Most wait for one alone, and it has ended: no second question to the database then.
    several = [hold.pk for hold in holds if len(hold.question["parcels"]) > 1]
    if not several:
        return holds
    waiting = Hold.objects.filter(pk__in=several, announcements__state__in=OPEN)
    still = set(waiting.values_list("pk", flat=True))
    return [hold for hold in holds if hold.pk not in still]


def release(holds: Sequence[Hold], known: Iterable[Parcel] = ()) -> int:
    """Answer the holds' clients; return how many rows are settled.

    The others stay open, and the sweeper tries again.
    """
    if not holds or not offload.release_many(_words(holds, final_answer, known)):
        return 0
    return Hold.objects.filter(pk__in=[hold.pk for hold in holds]).update(
        released_at=timezone.now()
    )


def resolve(hold_ids: list[str], *, final_only: bool = True) -> dict[str, HttpResponse]:
    """Return the answers of those holds that have one: what `offload` asks when in doubt.

    With `final_only=False` also what those get whose time is over.
    """
    asked = Hold.objects.filter(pk__in=hold_ids)
    answers = _words(asked.exclude(announcements__state__in=OPEN), final_answer)
    if not final_only:
        answers |= _words(asked.exclude(pk__in=list(answers)), _late)
    return answers


def _words(
    holds: Iterable[Hold],
    wording: Callable[[Question, Sequence[Parcel]], HttpResponse],
    known: Iterable[Parcel] = (),
) -> dict[str, HttpResponse]:
    """Return the holds' answers; none for one whose parcel was deleted meanwhile."""
    questions = {hold.pk: Question(**hold.question) for hold in holds}
    parcels = {parcel.pk: parcel for parcel in known}
    missing = {pk for each in questions.values() for pk in each.parcels} - parcels.keys()
    if missing:
        parcels |= Parcel.objects.in_bulk(missing)
    return {
        hold_id: wording(question, [parcels[pk] for pk in question.parcels])
        for hold_id, question in questions.items()
        if parcels.keys() >= set(question.parcels)
    }


def _late(question: Question, parcels: Sequence[Parcel]) -> HttpResponse:
    return late_answer(question, parcels, retry_after(parcels))
