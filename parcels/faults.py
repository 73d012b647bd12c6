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

from parcels.fault_settings import parse

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


def passing(point: str, company: str = KILL) -> None:
    """Die or freeze here, if this process was asked to.

    At the point "poison" it dies of a payload, like a crash in a library that reads it: give the
    receiver's company. After "before_send" a call is under way, which passes "after_send".
    """
    if settings.FAULT_CRASH_AT:
        _strike(point, company, settings.FAULT_CRASH_AT, signal.SIGKILL)
    if settings.FAULT_PAUSE_AT:
        _strike(point, company, settings.FAULT_PAUSE_AT, signal.SIGSTOP)
    if point == "before_send" and settings.FAULT_CRASH_AT.startswith("after_send"):
        timer = threading.Timer(UNDER_WAY, passing, ["after_send"])
        timer.daemon = True
        timer.start()


def _strike(point: str, company: str, wanted: str, number: signal.Signals) -> None:
    if company.strip().upper() != KILL:
        return
    where, every = parse(wanted)
    if where == point and allowed() and next(_passed[point]) % every == 0:
        # To this thread and not to the process: the kernel could choose another thread, which would
        # stop or end this one some time later, when it has passed its point.
        signal.pthread_kill(threading.get_ident(), number)
