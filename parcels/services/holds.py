"""Waiting clients: how they asked, their holds, and answering them.

Both kinds of strategy use this: a front holds the client, or this worker waits.
"""

import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import asdict, dataclass
from datetime import timedelta
from time import monotonic

from django.db import connection, transaction
from django.http import HttpResponse
from django.utils import timezone

import offload
from parcels.models import Account, Announcement, Hold, Parcel
from parcels.models.announcement import OPEN
from parcels.representation import Question, final_answer
from parcels.selectors import in_order
from parcels.services.clock import now_sql
from parcels.services.protect import retry_after
from parcels.services.rows import change_rows, insert, inserting
from parcels.services.waits import wait_here
from parcels.statuses import Status

log = logging.getLogger(__name__)
ASYNC = "respond-async"  # of a request for a label: one that only stores has no wait to be spared

# Django compiles the same query for longer than it runs.
_HELD = (
    f"SELECT id, question FROM {Hold._meta.db_table} WHERE released_at IS NULL AND id IN"  # noqa: S608 # no input in it
    f" (SELECT hold_id FROM {Hold.announcements.through._meta.db_table}"
    " WHERE announcement_id IN ({}))"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """How the client asked: its question, of which the parcels come later, and how long it waits.

    At most `seconds` from when the whole request was there, `until` by the monotonic clock. Not for
    a label where it prefers to `respond_async`.
    """

    account: Account
    question: Question
    respond_async: bool = False
    seconds: float = 0.0
    until: float = 0.0


def open_hold(asked: Asked, question: Question, announcements: Sequence[Announcement]) -> Hold:
    """Store which announcements a client waits for, and until when.

    Call it in the transaction that writes the announcements, or check afterwards whether they have
    ended: an outcome that was recorded earlier finds no hold.
    """
    with transaction.atomic(savepoint=False):
        hold = Hold(
            id=uuid.uuid4().hex,
            account=asked.account,
            question=asdict(question),
            deadline_at=timezone.now() + timedelta(seconds=asked.until - monotonic()),
        )
        # Not add(): a new hold has none that would have to be looked for first.
        Waiting = Hold.announcements.through
        with inserting([hold]):
            insert([Waiting(hold_id=hold.pk, announcement=each) for each in announcements])
    return hold


def held_off(parcels: Sequence[Parcel], out: Set[str]) -> bool:
    """Tell whether a label can't come now, because a carrier's breaker is open.

    Then the client doesn't wait: stored, 202, announced later.
    """
    carriers = {parcel.carrier for parcel in parcels if parcel.status == Status.BEING_ANNOUNCED}
    return not out.isdisjoint(carriers)


def unfinished_answer(
    question: Question, parcels: Sequence[Parcel], *, late: bool = False
) -> HttpResponse:
    """Answer with the parcels as they are; with `Retry-After` (seconds) while one is announced.

    A `late` answer, after a wait, is then 202 to a POST or PUT.
    """
    response = final_answer(question, parcels)
    seconds = retry_after(parcels)
    if seconds is not None:
        response["Retry-After"] = str(seconds)
    if late and question.creates and seconds is not None:
        response.status_code = 202
        ids = ",".join(map(str, question.parcels))
        where = f"/{ids}" if len(question.parcels) == 1 else f"?ids={ids}"
        response["Location"] = f"{question.base}/api/v2/parcels{where}"
        if question.preferred:
            response["Preference-Applied"] = question.preferred
    elif question.preferred == ASYNC and any(each.status != Status.NO_LABEL for each in parcels):
        response["Preference-Applied"] = ASYNC
    return response


def wait_for(
    asked: Asked, question: Question, hold: Hold, parcels: Sequence[Parcel], *, buys: bool = True
) -> HttpResponse:
    """Wait for the hold's answer: at the front where there is one, else in this worker.

    Where the account has its share of this worker's threads, the late answer comes at once.
    """
    late = unfinished_answer(question, parcels, late=True)
    left = asked.until - monotonic()  # a slow store has taken part of it
    if left <= 0:
        return late
    if offload.holds_clients():
        return offload.hold(hold.pk, late=late, wait=left, account=str(asked.account.pk))
    return wait_here(
        hold,
        asked.until,
        late,
        lambda: unfinished_answer(question, in_order(question.parcels), late=True),
        buys=buys,
    )


def release_holds(announcement_ids: Sequence[int], known: Iterable[Parcel] = ()) -> None:
    """Answer each client that waited for one of these as its last one. Call after commit.

    `known` are parcels as they are now: they are not read again.
    """
    with connection.cursor() as cursor:
        cursor.execute(_HELD.format(", ".join(["%s"] * len(announcement_ids))), announcement_ids)
        holds = [Hold(id=key, question=json.loads(text)) for key, text in cursor.fetchall()]
    # Most wait for one alone, and it has ended: no second question to the database then.
    several = [hold.pk for hold in holds if len(hold.question["parcels"]) > 1]
    if several:
        waiting = Hold.objects.filter(pk__in=several, announcements__state__in=OPEN)
        still = set(waiting.values_list("pk", flat=True))
        holds = [hold for hold in holds if hold.pk not in still]
    release(holds, known)


def release(holds: Sequence[Hold], known: Iterable[Parcel] = ()) -> int:
    """Answer the holds' clients; return how many rows are settled. The sweeper tries the others."""
    if not holds or not offload.release_many(words_of(holds, final_answer, known)):
        return 0
    rows = [{"id": hold.pk} for hold in holds]
    return len(change_rows(Hold, rows, f"released_at = {now_sql()}", "true"))


def words_of(
    holds: Collection[Hold],
    wording: Callable[[Question, Sequence[Parcel]], HttpResponse],
    known: Iterable[Parcel] = (),
) -> dict[str, HttpResponse]:
    """Return the answers that can be made, without parcels that were deleted: a batch's drafts."""
    parcels = {parcel.pk: parcel for parcel in known}
    missing = {pk for hold in holds for pk in hold.question["parcels"]} - parcels.keys()
    parcels |= Parcel.objects.in_bulk(missing)
    answers = {}
    for hold in holds:
        left = [parcels[pk] for pk in hold.question["parcels"] if pk in parcels]
        # A newer version, beside this one during an update, may ask for more.
        asked = {name: given for name, given in hold.question.items() if name in Question.__slots__}
        try:
            if left:
                answers[hold.pk] = wording(Question(**asked), left)
        except Exception:  # the other clients wait, too
            log.exception("no answer can be made for hold %s", hold.pk)
    return answers
