"""Faults that the fault suite sets in a process: die or freeze at a named point.

Only in the demo and in development: else no process starts with these settings.
"""

from __future__ import annotations

import itertools
import re
import signal
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from carriers.call import Call
from parcels.services import announce, announcer, ending, job, reconcile, record

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
_WANTED = re.compile(rf"({'|'.join(POINTS)})(?::([1-9]\d*))?")
# A receiver's company that ends the process which prepares its announcement, at the point "poison".
KILL = "SIM:KILL"
# Seconds after a purchase's first byte: within any call that takes at least this long.
UNDER_WAY = 0.05

_passed: defaultdict[str, itertools.count[int]] = defaultdict(lambda: itertools.count(1))


def passing(point: str, company: str = KILL) -> None:
    """Die or freeze here, if this process was asked to.

    At the point "poison" it dies of a payload, like a crash in a library that reads it: give the
    receiver's company. After "before_send" a call is under way, which passes "after_send".
    """
    if settings.FAULT_CRASH_AT:
        _strike(point, company, "FAULT_CRASH_AT", signal.SIGKILL)
    if settings.FAULT_PAUSE_AT:
        _strike(point, company, "FAULT_PAUSE_AT", signal.SIGSTOP)
    if point == "before_send" and settings.FAULT_CRASH_AT.startswith("after_send"):
        timer = threading.Timer(UNDER_WAY, passing, ["after_send"])
        timer.daemon = True
        timer.start()


def parse(setting: str) -> tuple[str, int]:
    """Read `point:n`, each n-th passing of a point; ImproperlyConfigured where it is neither."""
    text = getattr(settings, setting)
    if not (wanted := _WANTED.fullmatch(text)):
        raise ImproperlyConfigured(
            f"{setting}={text!r} is not one of {', '.join(POINTS)}, with :n for each n-th"
        )
    return wanted[1], int(wanted[2] or 1)


def _strike(point: str, company: str, setting: str, number: signal.Signals) -> None:
    if company.strip().upper() != KILL:
        return
    where, every = parse(setting)
    if where == point and next(_passed[point]) % every == 0:
        # To this thread and not to the process: the kernel could choose another thread, which would
        # stop or end this one some time later, when it has passed its point.
        signal.pthread_kill(threading.get_ident(), number)


def _each_begins(announcement_ids: Any) -> None:
    for _ in announcement_ids:
        passing("before_intent")


def _is_prepared(row: Any, *_: Any) -> None:
    passing("poison", row.parcel.company_name)


def _purchase_leaves(call: Call) -> None:
    if call.request and call.request.acts and not call.act_sent:
        passing("before_send")


# Where the points are: before the function, by its arguments, and after it. Each module that
# imported one has a name of its own for it.
Places = list[tuple[Any, str, str | Callable[..., None], str]]
PLACES: Places = [
    *((module, "prepare", _each_begins, "") for module in (announcer, announce)),
    *((module, "buy_async", "after_intent", "after_reply") for module in (announcer, announce)),
    *((module, "buy", "after_intent", "after_reply") for module in (announce, reconcile)),
    *((module, "finish", "", "after_notify") for module in (announcer, announce, reconcile)),
    (job, "consignment", _is_prepared, ""),
    (Call, "leaving", _purchase_leaves, ""),
    (record, "tell_parcels", "", "before_commit"),
    (ending, "release_holds", "after_commit", ""),
]


def install() -> None:
    """Put the points around the functions of PLACES, which know nothing of them; once, at start."""
    for setting in ("FAULT_CRASH_AT", "FAULT_PAUSE_AT"):
        if getattr(settings, setting):
            parse(setting)
    for owner, name, before, after in PLACES:
        setattr(owner, name, _between(getattr(owner, name), before, after))


def _between(
    function: Callable[..., Any], before: str | Callable[..., None], after: str
) -> Callable[..., Any]:
    def begin(*given: Any) -> None:
        if callable(before):
            before(*given)
        else:
            passing(before)

    @wraps(function)
    def passes(*given: Any) -> Any:
        begin(*given)
        result = function(*given)
        passing(after)
        return result

    @wraps(function)
    async def passes_async(*given: Any) -> Any:
        begin(*given)
        result = await function(*given)
        passing(after)
        return result

    return passes_async if iscoroutinefunction(function) else passes
