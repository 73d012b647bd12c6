"""Stand between our processes and a carrier: ask before a call, note after it what it has shown.

The guards are in Redis and shared by all processes. Without Redis each process counts for itself,
with a breaker that starts closed; that is logged and counted.
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.conf import settings

from carriers import registry
from carriers.breaker_rules import verdict
from carriers.guards import modes
from carriers.outcomes import Announced, LookupResult, NotSent, Outcome, VoidResult
from parcels import metrics
from parcels.models import Parcel, State
from parcels.services.carrier_guards import guards_of, probe_aside, tend_breakers
from parcels.services.job import Job
from parcels.statuses import Status

# What waits for a slot, by its state: the task that takes it up again. Voids and late lookups take
# what these leave.
WOKEN: dict[str, str] = {State.ANNOUNCING: "announce", State.UNKNOWN: "reconcile"}
# Seconds until the others ask again; a range, so that those turned away together don't return
# together.
FULL_WAIT = (0.5, 2.0)
# Seconds in addition to the breaker's own delay, for the same reason.
OPEN_SPREAD = 2.0
# Seconds that a process believes what it read of a breaker or of health: both are hints there.
BELIEVED = 0.5
# Seconds of `Retry-After`, while nothing is known of the carrier yet.
DEFAULT_RETRY = 5
# Why 1 and 60: a client should neither poll too often nor miss the answer for long.
SHORTEST_RETRY, LONGEST_RETRY = 1, 60


def enter(jobs: Sequence[Job]) -> dict[int, NotSent]:
    """Take the permissions to call the carriers; return why not, by announcement, for the others.

    Each with when to ask again. Never waits, but for Redis' time-out. A caller that is chosen to
    probe a half-open carrier does so in a separate thread.
    """
    refused: dict[int, NotSent] = {}
    for code in {job.carrier.code for job in jobs}:
        own, guards = [job for job in jobs if job.carrier.code == code], guards_of(code)
        rows = [job.announcement for job in own]
        places = [f"{WOKEN[row.state]}:{row.pk}" if row.state in WOKEN else "" for row in rows]
        entries = guards.enter([str(row.account_id) for row in rows], places=places)
        for job, (slot, admission) in zip(own, entries, strict=True):
            if slot:
                job.slot = slot
                continue
            if admission is None:
                reason, delay = "bulkhead_full", settings.TIME_SCALE * random.uniform(*FULL_WAIT)
            else:
                if admission.probe:
                    probe_aside(guards, admission.probe)
                spread = settings.TIME_SCALE * random.uniform(0, OPEN_SPREAD)
                reason, delay = "breaker_open", admission.retry_after + spread
            metrics.TURNED_AWAY.labels(code, reason).inc()
            refused[job.announcement.pk] = NotSent(reason, retry_after=delay)
    return refused


def leave(
    ended: Iterable[tuple[Job, Outcome | LookupResult | VoidResult | None, float]],
    *,
    buys: bool = True,
) -> None:
    """Give permissions back, each with its call's result and duration; None: there was no call.

    Only what `buys` counts for the carrier's median: clients wait for these.
    """
    shown: defaultdict[str, dict[str, Any]] = defaultdict(lambda: defaultdict(list))
    for job, result, duration in ended:
        if not job.slot:
            continue
        own = shown[job.carrier.code]
        own["slots"].append(job.slot)
        job.slot = ""
        if result is None:
            continue
        # A label needs no judging.
        failed, asked = (False, None) if isinstance(result, Announced) else verdict(result)
        if asked is not None:
            own["throttled"].append(asked)
        if failed is not None:
            # An announcement's failures count once: by its reference.
            own["outcomes"].append((failed, duration, job.announcement.reference))
            if buys:
                own["bought"].append((duration, not failed))
    for code, given in shown.items():
        guards_of(code).leave(**given)


def carriers_out() -> set[str]:
    """Return the carriers that are held off, as of a moment ago. Asks Redis: in no transaction."""
    every = [guards_of(code) for code in registry.CARRIERS]
    states = zip(registry.CARRIERS, modes(every, BELIEVED), strict=True)
    if (out := {code for code, state in states if state != "closed"}) and every[0].redis.gone:
        tend_breakers()  # the sweeper doesn't know this process' own
    return out


def retry_after(parcels: Sequence[Parcel]) -> int | None:
    """Return `Retry-After` in whole seconds; None when nothing is being announced any more.

    The recent median of the slowest carrier that is waited for; where its breaker is open, the
    default at least.
    """
    seconds: list[int] = []
    for code in {each.carrier for each in parcels if each.status == Status.BEING_ANNOUNCED}:
        median = guards_of(code).recent(BELIEVED).p50
        wait = DEFAULT_RETRY if median is None else math.ceil(median)
        if code in carriers_out():
            wait = max(wait, DEFAULT_RETRY)
        seconds.append(max(SHORTEST_RETRY, min(wait, LONGEST_RETRY)))
    return max(seconds, default=None)
