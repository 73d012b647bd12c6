"""The app without one of its guards: for the fault suite's negative controls, and for tests.

A guard is only proved when a test fails without it. What `settings.FAULT_GUARDS_OFF` names is
replaced when a process starts, in the demo and in development only; the guards know nothing of it.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from carriers.backoff import Decision
from carriers.outcomes import Unknown
from parcels.models import Announcement, State
from parcels.services import (
    carrier_guards,
    claim,
    ending,
    idempotency,
    job,
    next_state,
    protect,
    spares,
    sweep,
    void,
    waits,
    wake,
)
from parcels.services.call_and_wait import call_carrier
from parcels.services.clock import DatabaseNow

# More calls, claims and purchases, and a larger share of failures, than there can be.
MANY = 10**6
NEVER = 2.0
# Seconds: longer than any run.
NO_DEADLINE = 86_400.0
# Seconds, in the control of F10: shorter than the carrier's delay there.
SHORT_SETTLING = 0.5

# What a thing becomes, of what it is.
Change = Callable[[Any], Any]


def _always(value: object) -> Change:
    """Have a constant, or what a function returns, be this value."""
    return lambda was: (lambda *_, **__: value) if callable(was) else value


def _given(**named: object) -> Change:
    """Have a function be called with these arguments, whatever its caller says."""
    return lambda was: lambda *given, **others: was(*given, **others | named)


def _before(step: Callable[..., None]) -> Change:
    """Have this be done before a function, with its arguments."""

    def change(was: Callable[..., Any]) -> Callable[..., Any]:
        def begins(*given: Any, **named: Any) -> Any:
            step(*given, **named)
            return was(*given, **named)

        return begins

    return change


def _is_pending(ids: Sequence[int], state: State = State.PENDING) -> None:
    if state == State.PENDING:
        rows = Announcement.objects.filter(pk__in=ids).exclude(state=State.CANCELLED)
        rows.update(state=State.PENDING, run_at=DatabaseNow())


def _is_free(announcement_id: int) -> None:
    Announcement.objects.filter(pk=announcement_id).update(lease_until=None)


def _was_not_sent(rows: Any, delay: float) -> None:
    rows.update(sent_at=None)


def _has_no_credentials(rows: Sequence[Any]) -> None:
    for row in rows:
        row.credentials_hash = ""


def _all_rows(still_ours: Any) -> Any:
    return lambda announcement: Announcement.objects.filter(pk=announcement.pk)


def _buys_again(after_buying: Any) -> Any:
    return lambda job, outcome: (
        Decision("pending") if isinstance(outcome, Unknown) else after_buying(job, outcome)
    )


def _without_deadline(limits: Any) -> Any:
    def unlimited(self: job.Job) -> tuple[str, float, float, float]:
        url, _, connecting, until = limits(self)
        return url, NO_DEADLINE, connecting, until

    return unlimited


def _by_own_clock(claim: Any) -> Any:
    def claims(*given: Any) -> list[Any]:
        now, claimed = timezone.now(), claim(*given)
        for row in claimed:
            if row.unknown_since:
                row.unknown_age = (now - row.unknown_since).total_seconds()
            if row.call_ended_at:
                row.settled_for = (now - row.call_ended_at).total_seconds()
            row.overdue = now >= row.deadline_at
        return list(claimed)

    return claims


def _voids_unchecked(call_void: Any) -> Any:
    return lambda job, purchase, **_: call_carrier(
        job, job.carrier.void(purchase, job.consignment.credentials)
    )


def _never_throttled(verdict: Any) -> Any:
    return lambda result: (verdict(result)[0], None)


def _of_no_account(send: Any) -> Any:
    return lambda task, ids, queue, account_id=None, **bell: send(task, ids, queue, **bell)


# Each guard that may be named: where it is, its name there, and what it becomes.
WITHOUT: dict[str, list[tuple[Any, str, Change]]] = {
    # A repeated message finds the row taken.
    "claim": [(claim, "claim", _before(_is_pending))],
    # Whoever lost the row writes nothing to it.
    "fence": [(ending, "ours", _always("true")), (next_state, "still_ours", _all_rows)],
    # A process that was paused does not send.
    "send_guard": [(claim, "LEASE_SHARE", _always(MANY)), (job, "GUARD_WINDOW", _always(math.inf))],
    # What may have been bought is reconciled, not bought again.
    "unknown": [
        (next_state, "after_buying", _buys_again),
        (sweep, "_end_lease", _before(_was_not_sent)),
    ],
    # An absence is believed only after the carrier's settling window.
    "settling": [(next_state, "settling", _always(SHORT_SETTLING))],
    # A repeated key makes nothing new.
    "idempotency": [(idempotency, "read_key", _always(None))],
    # A call is cut at its total deadline.
    "deadline": [(job.Job, "limits", _without_deadline)],
    # After a recovery calls are let out at a rising rate.
    "ramp": [(carrier_guards, "BreakerConfig", _given(ramp_for=0.0))],
    # A carrier has room for so many calls at once.
    "bulkhead": [(carrier_guards, "CarrierGuards", _given(limit=MANY))],
    # A carrier that fails is left alone.
    "breaker": [(carrier_guards, "BreakerConfig", _given(share=NEVER))],
    # A carrier that answers 429 is left alone for as long as it asks.
    "gate": [(protect, "verdict", _never_throttled)],
    # After an unknown no refusal is final.
    "refusal": [(next_state, "decide", _given(was_unknown=False))],
    # A proved absence is followed by so many purchases at most.
    "repeats": [(next_state, "Policy", _given(max_repeats=MANY))],
    # Every call about an announcement uses the credentials of its first.
    "credentials": [(job, "jobs_for", _before(_has_no_credentials))],
    # An announcement that ends its claimants goes to a person.
    "claims": [(claim, "MAX_CLAIMS", _always(MANY))],
    # A wake-up that was not delivered is not taken for one that was.
    "wake": [(sweep, "not_woken", _always(None)), (sweep, "wake_all_again", _always(0))],
    # Ages are taken by the database's clock.
    "clock": [(claim, "claim", _by_own_clock)],
    # A label is voided by one process at a time.
    "void_claim": [(void, "_claim", _before(_is_free))],
    # A refused void is held against what the carrier still lists.
    "void_check": [(spares, "call_void", _voids_unchecked)],
    # A spare label is voided until it is gone.
    "spares": [(spares, "due_spares", _always([]))],
    # An account that asks for much leaves the others their turn.
    "turns": [
        (wake, "send", _of_no_account),
        (wake, "next_in_turn", _always([])),
        (waits, "thread_to_wait", _always(nullcontext(True))),
        (sweep, "ORDER", _always("wake_at")),
        (carrier_guards, "CarrierGuards", _given(share=0)),
    ],
}


def take_away(*guards: str) -> list[tuple[Any, str, Any, Any]]:
    """Replace guards; return each with what it was and has become."""
    if unknown := [guard for guard in guards if guard not in WITHOUT]:  # nothing would be seen
        raise ImproperlyConfigured(
            f"FAULT_GUARDS_OFF: there is no guard {unknown[0]!r} in {', '.join(WITHOUT)}"
        )
    replaced: list[tuple[Any, str, Any, Any]] = []
    for owner, name, change in (each for guard in guards for each in WITHOUT[guard]):
        was = getattr(owner, name)
        made = change(was)
        _replace(owner, name, was, made)
        replaced.append((owner, name, was, made))
    return replaced


def _replace(owner: Any, name: str, was: Any, made: Any) -> None:
    """In each module that has the name for it; a test keeps the bound that it checks."""
    ours = [
        module
        for path, module in sys.modules.items()
        if path.startswith("parcels.") and not path.startswith("parcels.tests.")
    ]
    for place in (owner, *ours):
        if vars(place).get(name) is was:
            setattr(place, name, made)


@contextmanager
def without(*guards: str) -> Iterator[None]:
    """Do without these guards for a while, in a test; "" is none."""
    replaced = take_away(*filter(None, guards))
    carrier_guards.forget()
    try:
        yield
    finally:
        for owner, name, was, made in reversed(replaced):
            _replace(owner, name, made, was)  # also in what was loaded meanwhile
        carrier_guards.forget()
