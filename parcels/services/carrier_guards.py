"""Each carrier's guards, made from the settings; and its probes.

Calls go through `parcels.services.protect`.
"""

import functools
import logging
import math
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import redis
from django.conf import settings

from carriers import recovery, registry, transport
from carriers.breaker_rules import BreakerConfig
from carriers.guards import CarrierGuards, modes
from carriers.guards_local import SHARE
from carriers.outcomes import Answered, ProbeResult
from carriers.redis_guard import RedisGuard
from offload.redis_clients import sync_client
from parcels import metrics
from parcels.services.wake import BELL, send

log = logging.getLogger(__name__)

# Seconds for which a slot is kept for the one that is woken: a worker hears of it within 50 ms, and
# the sweeper's next round wakes it where no message was sent.
KEPT = 2.0


@functools.cache
def _client() -> redis.Redis:
    return sync_client(settings.GUARDS_URL, time_out=settings.CARRIER_GUARD_TIMEOUT)


@functools.cache
def _redis() -> RedisGuard:
    return RedisGuard(_client(), "guards", on_trouble=metrics.guard_trouble)


@functools.cache
def guards_of(code: str) -> CarrierGuards:
    """Return this process's guards to a carrier."""
    own = settings.CARRIERS.get(code, {"bulkhead": 1})  # or it was removed
    return CarrierGuards(
        _redis(),
        code,
        limit=int(own["bulkhead"]),
        # A lease that a killed process leaves behind ends with the announcement's own.
        lease=settings.ANNOUNCEMENT_LEASE,
        share=SHARE,
        kept=KEPT * settings.TIME_SCALE,
        on_turn=partial(_aside, _wake, code),
        config=BreakerConfig(
            window=settings.CARRIER_BREAKER_WINDOW,
            horizon=settings.CARRIER_BREAKER_HORIZON,
            min_calls=settings.CARRIER_BREAKER_MIN_CALLS,
            share=settings.CARRIER_BREAKER_SHARE,
            open_for=settings.CARRIER_BREAKER_OPEN_FOR,
            ramp_for=settings.CARRIER_BREAKER_RAMP_FOR,
            ramp_from=settings.CARRIER_BREAKER_RAMP_FROM,
            ramp_to=settings.CARRIER_BREAKER_RAMP_TO,
            trial_every=settings.TIME_SCALE,
        ),
        prefix=settings.CARRIER_GUARD_PREFIX,
    )


def forget() -> None:
    """Drop all connections and local states, e.g. when a test changes the settings."""
    for cached in (_redis, guards_of):
        cached.cache_clear()


def tend_breakers() -> None:
    """Probe each carrier whose breaker is due for it, even without calls."""
    every = [guards_of(code) for code in registry.CARRIERS]
    for guards, mode in zip(every, modes(every), strict=True):
        if mode != "closed" and (admission := recovery.admit(guards)).probe:
            probe_aside(guards, admission.probe)


def _aside(function: Callable[..., object], *arguments: object) -> None:
    """Do it in a separate thread, if one can be started: nobody waits for it."""
    with suppress(RuntimeError):
        threading.Thread(target=function, args=arguments).start()


def _wake(code: str, turns: Sequence[bytes]) -> None:
    """Wake those for which slots are kept, before all that wait for a worker."""
    together: defaultdict[tuple[str, int], list[int]] = defaultdict(list)  # by task and account
    for turn in turns:
        owner, task, row_id = re.split("[.:]", turn.decode())
        together[task, int(owner)].append(int(row_id))
    for (task, account_id), ids in together.items():
        for some in [ids] if task == "announce" else [[each] for each in ids]:
            send(task, some, f"announce.{code}", account_id, bell=BELL, first=True)


def probe_aside(guards: CarrierGuards, token: str) -> None:
    """Probe a carrier; where no thread can be started, `open_for` passes first."""
    _aside(probe, guards, token)


def probe(guards: CarrierGuards, token: str) -> ProbeResult:
    """Find out, without buying, whether the carrier is back, and tell the breaker."""
    carrier = registry.CARRIERS[guards.carrier]
    result = transport.perform(
        # A refusal of these credentials also shows that the carrier is up.
        carrier.probe(settings.HOUSE_CREDENTIALS[guards.carrier]),
        str(settings.CARRIERS[guards.carrier]["url"]),
        settings.CARRIER_PROBE_DEADLINE,
        settings.CARRIER_CONNECT_TIMEOUT,
    )
    alive = isinstance(result, Answered)
    recovery.record_probe(guards, token, alive=alive)
    log.warning("probed %s: %s", guards.carrier, "alive" if alive else "still down")
    return result


def room(code: str) -> int:
    """Return how many announcements it makes sense to wake in the next second.

    No more than there are slots: the share that a single account leaves free is enough reserve for
    slots that become free meanwhile.
    """
    guards = guards_of(code)
    pace = recovery.pace(guards)
    free = guards.limit - guards.in_flight()
    return max(0, math.ceil(free if pace is None else min(pace, free)))
