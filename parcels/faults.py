"""Faults that the fault suite sets in a process: die or freeze at a named point, or drop a guard.

A guard is only proved when a test fails without it: the suite's negative controls switch one off
and must fail. This works only in the demo and in development (`shipping.E008` otherwise).
"""

from __future__ import annotations

import itertools
import signal
import threading
from collections import defaultdict

from django.conf import settings

GUARDS = {
    "claim": "a repeated message finds the row taken",
    "fence": "whoever lost the row writes nothing to it",
    "send_guard": "a process that was paused does not send",
    "unknown": "what may have been bought is reconciled, not bought again",
    "settling": "an absence is believed only after the carrier's settling window",
    "idempotency": "a repeated key makes nothing new",
    "deadline": "a call is cut at its total deadline",
    "ramp": "after a recovery calls are let out at a rising rate",
    "bulkhead": "a carrier has room for so many calls at once",
    "breaker": "a carrier that fails is left alone",
    "gate": "a carrier that answers 429 is left alone for as long as it asks",
    "refusal": "after an unknown no refusal is final",
    "repeats": "a proved absence is followed by so many purchases at most",
    "credentials": "every call about an announcement uses the credentials of its first",
    "claims": "an announcement that ends its claimants goes to a person",
    "wake": "a wake-up that was not delivered is not taken for one that was",
    "clock": "ages are taken by the database's clock",
    "void_claim": "a label is voided by one process at a time",
    "void_check": "a refused void is held against what the carrier still lists",
    "spares": "a spare label is voided until it is gone",
    "turns": "an account that asks for much leaves the others their turn",
}
POINTS = (
    "before_intent",
    "after_intent",
    "before_send",
    "after_send",
    "after_reply",
    "before_commit",
    "after_commit",
    "after_notify",
    "poison",
)
# A receiver's company that ends the process which prepares its announcement, at the point "poison".
KILL = "SIM:KILL"
# Seconds after a purchase's first byte: within any call that takes at least this long.
UNDER_WAY = 0.05
# The settling window in the control of F10: shorter than the carrier's delay there.
SHORT_SETTLING = 0.5

_passed: defaultdict[str, itertools.count[int]] = defaultdict(lambda: itertools.count(1))


def is_off(guard: str) -> bool:
    """Tell whether a guard was taken away for a negative control."""
    return guard in settings.FAULT_GUARDS_OFF and allowed()


def allowed() -> bool:
    """Tell whether this deployment allows faults."""
    return bool(settings.DEBUG or settings.DEMO)


def parse(text: str) -> tuple[str, int]:
    """Read `point:n`, each n-th passing of a point; ValueError where it is neither."""
    point, _, number = text.partition(":")
    every = int(number or 1)
    if point not in POINTS or every < 1:
        raise ValueError(f"{text!r} is not one of {', '.join(POINTS)}, with :n for each n-th")
    return point, every


def mistakes() -> list[str]:
    """Return what is wrong with the settings, for the system checks."""
    found = [
        f"FAULT_GUARDS_OFF: there is no guard {guard!r}."
        for guard in settings.FAULT_GUARDS_OFF
        if guard not in GUARDS
    ]
    for name in ("FAULT_CRASH_AT", "FAULT_PAUSE_AT"):
        try:
            parse(getattr(settings, name) or POINTS[0])
        except ValueError as error:
            found.append(f"{name}: {error}.")
    return found


def passing(point: str) -> None:
    """Die or freeze here, if this process was asked to."""
    if settings.FAULT_CRASH_AT:
        _strike(point, settings.FAULT_CRASH_AT, signal.SIGKILL)
    if settings.FAULT_PAUSE_AT:
        _strike(point, settings.FAULT_PAUSE_AT, signal.SIGSTOP)


def poison(company: str) -> None:
    """Die of a payload, like a crash in a library that reads it, if this process was asked to."""
    if company.strip().upper() == KILL:
        passing("poison")


def purchase_leaves() -> None:
    """Pass the two points around a purchase's first byte."""
    passing("before_send")
    if settings.FAULT_CRASH_AT.startswith("after_send"):
        timer = threading.Timer(UNDER_WAY, passing, ["after_send"])
        timer.daemon = True
        timer.start()


def _strike(point: str, wanted: str, number: signal.Signals) -> None:
    where, every = parse(wanted)
    if where == point and allowed() and next(_passed[point]) % every == 0:
        # To this thread and not to the process: the kernel could choose another thread, which would
        # stop or end this one some time later, when it has passed its point.
        signal.pthread_kill(threading.get_ident(), number)
