"""Follow the carriers' tracking feed: each event once, however many processes read it.

One transaction moves the cursor, conditionally, and stores the events in between: of two readers of
the same page the second finds the cursor moved. An event's number is unique, too.
"""

import logging
from collections.abc import Iterable
from datetime import datetime
from time import monotonic

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q, QuerySet

from carriers import transport
from carriers.tracking_feed import Page, Step, read
from parcels.models import FeedCursor, Parcel, SpareLabel, SpareState, TrackingEvent
from parcels.services.ending import among, set_status
from parcels.statuses import Status

log = logging.getLogger(__name__)

FEED = "carriers"
# One transaction's worth: on SQLite it keeps other writers waiting for some 50 ms.
EVENTS_AT_ONCE = 200
# Seconds: the feed is not urgent; a slower carrier is asked again later.
DEADLINE = 5.0
CONNECT_TIMEOUT = 1.0
# Seconds until a feed that gave no answer is asked again.
QUIET = 30.0
# Pages per round: the backlog of a day is read in minutes, and other work comes in between.
PAGES_AT_ONCE = 10
# Events without a parcel that are kept: a person may adopt their label weeks later. A number, since
# an age would be by the carrier's clock.
UNMATCHED_AT_MOST = 50_000
# Their tracking numbers that are looked for among the parcels in a round.
NUMBERS_AT_ONCE = 1_000

# No event moves a parcel into these or out of them: no label, the announcement's own, or a
# cancellation's own.
OURS = (
    Status.NO_LABEL,
    Status.BEING_ANNOUNCED,
    Status.ANNOUNCEMENT_FAILED,
    Status.CANCELLATION_REQUESTED,
    Status.SUBMITTING_CANCELLATION,
    Status.CANCELLED,
)


class Follower:
    """Reads the feed for one sweeper; pauses when the feed doesn't answer."""

    def __init__(self) -> None:
        self._quiet_until = 0.0
        self._matched = ""

    def catch_up(self) -> None:
        """Read what is new, a bounded number of pages, and match what came too early."""
        if not settings.TRACKING_FEED_URL or monotonic() < self._quiet_until:
            return
        for _ in range(PAGES_AT_ONCE):
            events = read_page()
            if events is None:
                self._quiet_until = monotonic() + QUIET
            if events != EVENTS_AT_ONCE:
                break
        self._matched = match_early(self._matched)


def read_page() -> int | None:
    """Read and store one page of the feed; return how many events it had, None without answer."""
    cursor, _ = FeedCursor.objects.get_or_create(name=FEED)
    connection.close()
    page = transport.perform(
        read(cursor.seq, EVENTS_AT_ONCE), settings.TRACKING_FEED_URL, DEADLINE, CONNECT_TIMEOUT
    )
    if not isinstance(page, Page):
        log.warning("the tracking feed gave no answer: %s", page.reason)
        return None
    if page.last > cursor.seq:
        store(since=cursor.seq, page=page)
    return page.size


def store(*, since: int, page: Page) -> bool:
    """Store a page and change its parcels; False if another process has read on from `since`."""
    # "Announced" is what the label said already, and would only hide "Ready to send".
    told = [step for step in page.steps if step.status != Status.ANNOUNCED]
    news = list({step.seq: step for step in told}.values())
    with transaction.atomic():
        if not FeedCursor.objects.filter(name=FEED, seq=since).update(seq=page.last):
            return False
        parcels = _locked({step.tracking_number for step in news})
        known = set(
            TrackingEvent.objects.filter(seq__in=[step.seq for step in news]).values_list(
                "seq", flat=True
            )
        )
        fresh = [_row(step, parcels) for step in news if step.seq not in known]
        TrackingEvent.objects.bulk_create(fresh)
        _move(fresh)
    return True


def _with(numbers: Iterable[str]) -> QuerySet[Parcel]:
    # The index's own condition: PostgreSQL doesn't see that it holds for each of a long list.
    return Parcel.objects.filter(tracking_number__in=numbers).exclude(tracking_number="")


def _locked(numbers: Iterable[str]) -> dict[tuple[str, str], Parcel]:
    """Return the parcels with these tracking numbers, by carrier and number.

    Locked: of two processes with events of one parcel, the second must see the first's.
    """
    rows = _with(numbers).select_for_update(no_key=True).order_by("pk")
    return {(parcel.carrier, parcel.tracking_number): parcel for parcel in rows}


def _row(step: Step, parcels: dict[tuple[str, str], Parcel]) -> TrackingEvent:
    try:
        message = Status(step.status).label
    except ValueError:
        message = ""
    return TrackingEvent(
        parcel=parcels.get((step.carrier, step.tracking_number)),
        carrier=step.carrier,
        tracking_number=step.tracking_number,
        status=step.status,
        message=message,
        at=step.at,
        seq=step.seq,
    )


def _move(events: Iterable[TrackingEvent]) -> None:
    """Set the status of the events' parcels, and tell their shops: one transaction with the events.

    In the order in which it happened. An event that is older than one which came before it, as of a
    scan that was uploaded late, changes nothing.
    """
    moving = sorted((event for event in events if event.status not in OURS), key=_when)
    if not moving:
        return
    others = TrackingEvent.objects.filter(
        parcel__in={event.parcel_id for event in moving}, seq__isnull=False, at__gte=moving[0].at
    ).exclude(Q(status__in=OURS) | Q(seq__in=[event.seq for event in moving]))
    newest = {other.parcel_id: _when(other) for other in sorted(others, key=_when)}
    for event in moving:
        if event.parcel and newest.get(event.parcel_id, _when(event)) <= _when(event):
            free = f"NOT {among([*OURS, Status.CANCELLED_UPSTREAM, event.status])}"
            set_status([event.parcel], free, event.status, carrier_at=event.at)


def _when(event: TrackingEvent) -> tuple[datetime, int]:
    return event.at, event.seq or 0


def follow_newest(parcel: Parcel) -> None:
    """Apply the newest event if it came after the request for a cancellation, which has failed.

    In the meantime no event set the status. Call it in the transaction that says that it failed.
    """
    steps = parcel.tracking_events
    newest = steps.exclude(seq=None).exclude(status__in=OURS).order_by("-at", "-seq").first()
    asked = steps.filter(seq=None, status=Status.CANCELLATION_REQUESTED).order_by("pk").last()
    # Not by `at`: what happened before the request is often uploaded after it, and why it failed.
    if newest and asked and newest.pk > asked.pk:
        _move([newest])


def match_early(beyond: str = "") -> str:
    """Assign events to parcels that have got their tracking number since; a portion at a time.

    `beyond` is the last number of the portion before. Returns this one's last, "" at the end.
    """
    waiting = TrackingEvent.objects.filter(parcel=None)
    if not beyond and waiting.count() > UNMATCHED_AT_MOST:
        _forget_oldest(waiting)
    after = waiting.filter(tracking_number__gt=beyond).order_by("tracking_number")
    numbers = list(after.values_list("tracking_number", flat=True).distinct()[:NUMBERS_AT_ONCE])
    # As a list: by a join of two tables PostgreSQL would read all parcels.
    known = set(_with(numbers).values_list("carrier", "tracking_number"))
    found = waiting.filter(tracking_number__in={number for _, number in known})
    theirs = known.intersection(found.values_list("carrier", "tracking_number"))
    with transaction.atomic():
        parcels = _locked({number for _, number in theirs}) if theirs else {}
        matched = []
        for event in found if theirs else []:
            event.parcel = parcels.get((event.carrier, event.tracking_number))
            ours = waiting.filter(pk=event.pk).update(parcel=event.parcel)
            if ours and event.parcel:
                matched.append(event)
        _move(matched)
    return numbers[-1] if len(numbers) == NUMBERS_AT_ONCE else ""


def _forget_oldest(waiting: QuerySet[TrackingEvent]) -> None:
    """Delete what came first; a spare's show that a refused void did not void it."""
    last = waiting.order_by("-pk").values_list("pk", flat=True)[UNMATCHED_AT_MOST]
    spares = SpareLabel.objects.filter(state=SpareState.OPEN).values("tracking_number")
    waiting.filter(pk__lte=last).exclude(tracking_number__in=spares).delete()
