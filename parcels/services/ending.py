"""End an announcement: its row, its parcel, its event, its holds. Write its attempts: each call and
each person's decision once. And set a parcel's status, with its webhook event and its history.

No other code does any of these, but for the first status of a parcel that is made or changed:
nobody was told of another before.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from carriers import outcomes, registry
from parcels.models import (
    Announcement,
    Attempt,
    Parcel,
    State,
    TrackingEvent,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services.clock import now_sql
from parcels.services.holds import release_holds
from parcels.services.rows import change_rows
from parcels.services.wake import WEBHOOK_QUEUE, send, wake_after_commit
from parcels.statuses import Status

Result = outcomes.Outcome | outcomes.LookupResult | outcomes.VoidResult

# Until another decision, the process that made the call knows best: a sweeper that found its lease
# expired has changed the state but not the fence.
OURS = (State.ANNOUNCING, State.UNKNOWN, State.NEEDS_REVIEW)
CANCELLING = (Status.CANCELLATION_REQUESTED, Status.SUBMITTING_CANCELLATION)
_CANCELLATION_ENDS = (Status.CANCELLED, Status.CANCELLATION_FAILED)
# No carrier's feed tells of a cancellation's steps, so they are written into the history.
_CANCELLATION = (*CANCELLING, *_CANCELLATION_ENDS)
_FIELDS = {field.name: field for field in Parcel._meta.concrete_fields}
# Whether a webhook is to be told: an account without any costs no statement for events. The name
# `account_id` is the parcel's: SQLite knows no `own` here.
_LISTENS = (
    "EXISTS (SELECT 1 FROM (SELECT account_id AS listener FROM"  # noqa: S608 # no input in it
    f" {WebhookEndpoint._meta.db_table} WHERE is_active) AS active WHERE listener = account_id)"
)
# Results' names, as attempts and metrics have them.
_CLASSES: dict[type, str] = {
    outcomes.Announced: "announced",
    outcomes.Refused: "refused",
    outcomes.Throttled: "throttled",
    outcomes.NotSent: "not_sent",
    outcomes.Unknown: "unknown",
    outcomes.Found: "found",
    outcomes.Absent: "absent",
    outcomes.Voided: "voided",
}


def among(statuses: Iterable[int]) -> str:
    """Return the condition, for `set_status`, that a parcel has one of these."""
    return f"own.status IN ({', '.join(str(int(status)) for status in statuses)})"


# 1002: a review that is overdue. 94: a cancellation that ended without an answer meanwhile.
_READY_FROM = among(
    (Status.BEING_ANNOUNCED, Status.ANNOUNCEMENT_FAILED, Status.CANCELLATION_FAILED)
)
_FAILED_FROM = among((Status.BEING_ANNOUNCED, Status.CANCELLATION_FAILED))
_WITHDRAWN_FROM = among((*CANCELLING, Status.BEING_ANNOUNCED, Status.ANNOUNCEMENT_FAILED))


@dataclass(frozen=True, slots=True)
class Ending:
    """How an announcement ends: announced with its label, failed with an error, or cancelled."""

    announcement: Announcement
    state: State
    carrier_id: str = ""
    tracking_number: str = ""
    error: str = ""


def ours(states: Collection[State] = OURS) -> str:
    """Return the condition, for `change_rows`, that a row is still its claimant's."""
    named = ", ".join(f"'{state.value}'" for state in states)
    return f"own.fence = given.fence AND own.state IN ({named})"


def end(
    endings: Sequence[Ending],
    *,
    states: Collection[State] = OURS,
    decided: bool = False,
) -> bool:
    """End these, each under its fence, and tell their parcels; False when none was still ours.

    Call it in a transaction. `states` they may be ended from; `decided` raises the fence: an
    attempt still under way must not overrule a person.
    """
    ended = end_rows(endings, states=states, decided=decided)
    tell_parcels(ended)
    return bool(ended)


def end_rows(
    endings: Sequence[Ending], *, states: Collection[State] = OURS, decided: bool = False
) -> list[Ending]:
    """End the announcements alone; return the endings of those that were still ours.

    The caller has their parcels told, in the same transaction. Holds are released after it.
    """
    changed = change_rows(
        Announcement,
        [
            {
                "id": each.announcement.pk,
                "fence": each.announcement.fence,
                "state": each.state.value,
                "carrier_id": each.carrier_id,
                "error": each.error,
                # What was unknown once may turn out to have been sold twice.
                "looked_at": each.announcement.unknown_since is not None
                and registry.REPEATS[each.announcement.carrier] == "lookup",
            }
            for each in endings
        ],
        "state = given.state, lease_until = NULL, claims = 0, fence = own.fence + %s,"
        f" carrier_id = given.carrier_id, error = given.error, date_ended = {now_sql()},"
        f" look_at = CASE WHEN given.looked_at THEN {now_sql('%s')} ELSE own.look_at END",
        ours(states),
        set_values=[int(decided), settings.LATE_LOOKS[0]],
    )
    ended = [each for each in endings if each.announcement.pk in changed]
    if ended:  # clients first: a broker may take its time for the messages about webhooks
        parcels = {each.announcement.pk: each.announcement.parcel for each in ended}
        # A `partial` has no name, by which Django logs an error here: it would be raised.
        transaction.on_commit(lambda: release_holds([*parcels], parcels.values()), robust=True)
    return ended


def tell_parcels(endings: Sequence[Ending]) -> None:
    """Give the parcels the statuses that follow, with their events; all labels in one statement."""
    labels = [each for each in endings if each.state == State.ANNOUNCED]
    numbers = {each.announcement.parcel_id: each.tracking_number for each in labels}
    changes: dict[str, Any] = {"date_announced": timezone.now(), "carrier_error": ""}
    parcels = [each.announcement.parcel for each in labels]
    moved = set_status(parcels, _READY_FROM, Status.READY_TO_SEND, numbers, **changes)
    for each in endings:
        parcel = each.announcement.parcel
        if each.state != State.ANNOUNCED:
            _no_label(parcel, each.state, each.error)
        elif parcel not in moved:
            # Its cancellation was asked for meanwhile: what was bought is voided at once.
            Parcel.objects.filter(pk=parcel.pk, status__in=CANCELLING).update(
                tracking_number=each.tracking_number, **changes
            )
            parcel.refresh_from_db()
            wake_after_commit([each.announcement], "void")


def _no_label(parcel: Parcel, state: State, error: str) -> None:
    if state == State.CANCELLED:
        moved = set_status([parcel], _WITHDRAWN_FROM, Status.CANCELLED)
    else:
        moved = set_status([parcel], _FAILED_FROM, Status.ANNOUNCEMENT_FAILED, carrier_error=error)
        if not moved:
            Parcel.objects.filter(pk=parcel.pk).update(carrier_error=error)
    if not moved:
        parcel.refresh_from_db()  # the next event must be newer than its last one
        if state == State.FAILED:
            set_status([parcel], among(CANCELLING), Status.CANCELLED)


def set_status(
    parcels: Sequence[Parcel],
    sources: str,
    status: int,
    tracking_numbers: Mapping[int, str] | None = None,
    *,
    carrier_at: datetime | None = None,
    **changes: Any,
) -> list[Parcel]:
    """Set the status of those that still match `sources`, there and here; return them.

    Call it in a transaction: their events are written with it. `changes` are more columns to set,
    `tracking_numbers` one that each parcel has its own of; `carrier_at` is when the carrier says
    that it happened.
    """
    if not parcels:
        return []
    # After what was before: receivers tell by it which of two events is the newer.
    now = max(
        timezone.now(), *(parcel.date_updated + timedelta(milliseconds=1) for parcel in parcels)
    )
    if status in _CANCELLATION_ENDS:
        changes["date_cancel_requested"] = None
    written = changes | {"status": status, "date_updated": now}
    own = tracking_numbers or {}
    changed = change_rows(
        Parcel,
        [{"id": parcel.pk, "number": own.get(parcel.pk)} for parcel in parcels],
        ", ".join([f"{name} = %s" for name in written])
        + (", tracking_number = given.number" if own else ""),
        sources,
        set_values=[_FIELDS[name].get_db_prep_save(written[name], connection) for name in written],
        returning=_LISTENS,
    )
    moved = [parcel for parcel in parcels if parcel.pk in changed]
    for parcel in moved:
        for name, value in written.items():
            setattr(parcel, name, value)
        if tracking_numbers:
            parcel.tracking_number = tracking_numbers[parcel.pk]
    if status in _CANCELLATION and carrier_at is None:
        TrackingEvent.objects.bulk_create(_step(parcel, status, now) for parcel in moved)
    events = [
        WebhookEvent(
            account_id=parcel.account_id,
            parcel_id=parcel.pk,
            status=status,
            date_created=now,
            carrier_changed_at=carrier_at,
        )
        for parcel in moved
        if changed[parcel.pk]
    ]
    WebhookEvent.objects.bulk_create(events)
    for event in events:
        wake = partial(send, "spread_event", [str(event.pk)], WEBHOOK_QUEUE)
        transaction.on_commit(wake, robust=True)
    return moved


def _step(parcel: Parcel, status: int, at: datetime) -> TrackingEvent:
    return TrackingEvent(
        parcel=parcel,
        carrier=parcel.carrier,
        tracking_number=parcel.tracking_number,
        status=status,
        message=Status(status).label,
        at=at,
    )


def attempt_of(
    announcement: Announcement,
    kind: str,
    result: Result | str,
    duration: float = 0.0,
    *,
    detail: str = "",
    label: tuple[str, str] = ("", ""),
    recorded: bool = True,
) -> Attempt:
    """Return an attempt, unsaved; `duration` in seconds.

    `result` is a carrier's, or the name of a person's decision; `label` its id and tracking number.
    The carrier's free text is left out: it may repeat an address. `recorded` is False if another
    process had the row.
    """
    match result:
        case outcomes.Announced():
            label = result.carrier_id, result.tracking_number
        case outcomes.Refused():
            detail = result.code
        case outcomes.NotSent() | outcomes.Unknown():
            detail = result.reason
    return Attempt(
        announcement=announcement,
        kind=kind,
        fence=announcement.fence,
        sent_at=announcement.sent_at,
        duration=round(duration, 4),
        outcome=result if isinstance(result, str) else _CLASSES[type(result)],
        detail=detail[:500],
        carrier_id=label[0],
        tracking_number=label[1],
        recorded=recorded,
    )


def note_attempt(
    announcement: Announcement, kind: str, result: Result | str, *given: Any, **more: Any
) -> Attempt:
    """Write one attempt; see `attempt_of`."""
    attempt = attempt_of(announcement, kind, result, *given, **more)
    attempt.save(force_insert=True)
    return attempt
