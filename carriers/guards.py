"""What guards a carrier, over Redis for all processes: its slots, breaker and recent calls.

Slots (a bulkhead): at most N calls are in flight to a carrier, so that one that hangs fills only
its own. Each is a lease in a sorted set: a killed process doesn't give its slot back, but its lease
expires. An owner may take a slot while it has fewer than SHARE times the free ones (dynamic
thresholds, as in switches whose ports share a buffer: Choudhury and Hahne, 1998). Whatever one
owner does, another one finds a free slot, and nothing need be known of who is there. An owner's
announcements that find none get theirs in their order: each that becomes free is kept for the
oldest for a moment, and whoever has to wake it is told.

The breaker's rules, and why: `carriers.breaker_rules`. While Redis is away each process counts for
itself: `carriers.guards_local`.
"""

import functools
import json
import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from carriers.breaker_rules import Admission, BreakerConfig, BreakerState, Mode
from carriers.guards_local import LOCAL, RECENT, SHARE, Entry, LocalGuards
from carriers.redis_guard import Gone, RedisGuard

LUA = Path(__file__).parent / "lua"
# Why a day: yesterday's durations say nothing about today's.
EXPIRY = 86_400


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Durations in seconds over the recent calls, None where there were none; share 0..1."""

    count: int
    p50: float | None
    p95: float | None
    error_share: float


@functools.cache
def script(name: str, **parts: str) -> str:
    """Read a script of `carriers/lua`; it finds other ones as functions of these names."""
    texts = {each: (LUA / f"{each}.lua").read_text() for each in (name, *parts.values())}
    functions = (
        f"local function {function}(KEYS, ARGV)\n{texts[part]}\nend\n"
        for function, part in parts.items()
    )
    return "".join(functions) + texts[name]


class CarrierGuards:
    """The guards of one carrier. `now` is for tests: else Redis' own clock.

    `lease` in seconds: longer than any call's total deadline; without `limit` nothing can enter.
    `on_turn` is told whose turn it is, '<owner>.<place>': a slot is kept for each of these, for
    `kept` seconds.
    """

    def __init__(
        self,
        redis: RedisGuard,
        carrier: str,
        *,
        limit: int = 0,
        lease: float = 0.0,
        share: int = SHARE,
        kept: float = 2.0,
        on_turn: Callable[[list[bytes]], object] = len,
        config: BreakerConfig | None = None,
        prefix: str = "carriers:",
    ) -> None:
        self.carrier = carrier
        self.limit = limit
        self.config = config or BreakerConfig()
        self.local = LocalGuards(limit, lease, share, self.config)
        self.redis = redis
        self.breaker_keys = [f"{prefix}breaker:{carrier}", f"{prefix}breaker:{carrier}:outcomes"]
        self._slots, self._recent = f"{prefix}bulkhead:{carrier}", f"{prefix}health:{carrier}"
        self._bulkhead, self._on_turn = [limit, lease, share, kept], on_turn
        bulkhead = script("bulkhead")
        entering = script("enter", admit="breaker_admit")
        self._enter = redis.client.register_script(bulkhead + entering)
        leaving = script("leave", record="breaker_record", throttle="breaker_throttle")
        self._leave = redis.client.register_script(bulkhead + leaving)
        self.read_mode: tuple[float, Mode] = (-math.inf, "closed")
        self.ask_modes = redis.client.register_script(script("breaker_modes"))
        self._read_recent: tuple[float, Snapshot] = (-math.inf, Snapshot(0, None, None, 0.0))

    def enter(
        self, owners: Sequence[str], now: float | None = None, *, places: Sequence[str] = ()
    ) -> list[Entry]:
        """Ask for a call for each of these owners, in their order; never wait.

        Each gets its slot's token, empty where it may not call, and what the breaker said: None
        where there was no slot. An owner without a name (word characters) is asked for no share.
        One with a place, '<task>:<id>', is told when it is its turn; the lowest id comes first.
        """
        local, config, moment = self.local, self.config, "" if now is None else now
        places = places if places and local.share else [""] * len(owners)
        tokens = [f"{owner}.{uuid.uuid4().hex}" for owner in owners]
        rest = [config.open_for, config.ramp_for, config.ramp_from, config.ramp_to]
        owed = local.take_owed() if local.owed else {}
        calls = [
            (*call, [moment, call[0], *rest, config.trial_every])
            for call in zip(tokens, owners, places, strict=True)
        ]
        asked = {"bulkhead": self._bulkhead, "owed": [*owed], "calls": calls}
        keys, arguments = [self._slots, *self.breaker_keys], [moment, json.dumps(asked)]
        try:
            answers, called = self.redis.ask(lambda: self._enter(keys, arguments))
        except Gone as gone:
            # Redis may still execute the request.
            local.owe(owed, tokens if gone.asked else ())
            return local.enter(tokens)
        local.breaker = BreakerState()  # for when Redis is away again
        if called:
            self._on_turn(called)
        entries: list[Entry] = []
        for token, answer in zip(tokens, answers, strict=True):
            if not answer:
                entries.append(("", None))
                continue
            allowed, retry_after, probe = answer
            admission = Admission(bool(allowed), float(retry_after), probe.decode())
            entries.append((token if allowed else "", admission))
        return entries

    def leave(
        self,
        slots: Sequence[str] = (),
        *,
        outcomes: Sequence[tuple[bool, float, str]] = (),
        bought: Sequence[tuple[float, bool]] = (),
        throttled: Sequence[float] = (),
        now: float | None = None,
    ) -> None:
        """Note what calls have shown and give their slots back, both at once.

        `outcomes`: (failed, seconds that it lasted, key), see `breaker_rules.verdict`; further
        failures of the same key are not counted, the empty one is no key. `bought`: a purchase's
        seconds, and whether the carrier answered well. `throttled`: seconds that 429s ask for. What
        Redis does not take back goes back with the next question that it answers.
        """
        local, config, moment = self.local, self.config, "" if now is None else now
        local.recent.extend(bought)
        owed = local.take_owed() if local.owed else {}
        shared = [slot for slot in slots if not slot.startswith(LOCAL)]
        limits = [config.window, config.horizon, config.min_calls, config.share]
        ended: dict[str, list[Any]] = {
            "recorded": [[moment, str(int(bad)), *limits, *rest] for bad, *rest in outcomes],
            "throttled": [[moment, seconds, config.trial_every] for seconds in throttled],
            "recent": [f"{duration:.4f}:{int(ok)}" for duration, ok in bought],
            "slots": [*owed, *shared],
        }
        try:
            if any(ended.values()):
                keys = [self._slots, *self.breaker_keys, self._recent]
                given = [moment, RECENT, EXPIRY, json.dumps(ended | {"bulkhead": self._bulkhead})]
                if called := self.redis.ask(lambda: self._leave(keys, given)):
                    self._on_turn(called)
        except Gone:
            local.owe(owed, shared)
            local.note(outcomes, throttled)
        if len(shared) < len(slots):
            local.free(slots)

    def mode(self) -> Mode:
        """Return the breaker's state."""
        return modes([self])[0]

    def recent(self, age: float = 0.0) -> Snapshot:
        """Sum up the recent calls, as they were so many seconds ago at most."""
        asked_at = monotonic()
        if asked_at - self._read_recent[0] < age:
            return self._read_recent[1]
        try:
            raw = self.redis.ask(lambda: self.redis.client.lrange(self._recent, 0, RECENT - 1))
            pairs = (entry.split(b":") for entry in raw)
            samples = [(float(duration), ok == b"1") for duration, ok in pairs]
        except Gone:
            samples = list(self.local.recent)
        seen = Snapshot(0, None, None, 0.0)
        if samples:
            durations = sorted(duration for duration, _ in samples)
            nearest = (math.ceil(share * len(samples)) - 1 for share in (0.5, 0.95))
            p50, p95 = (durations[rank] for rank in nearest)
            seen = Snapshot(len(samples), p50, p95, sum(not ok for _, ok in samples) / len(samples))
        self._read_recent = asked_at, seen
        return seen

    def in_flight(self) -> int:
        """Count the slots taken, leases that have run out included until the next `enter`."""
        try:
            return int(self.redis.ask(lambda: self.redis.client.zcard(self._slots)))
        except Gone:
            return len(self.local.slots)


def modes(every: Sequence[CarrierGuards], age: float = 0.0) -> list[Mode]:
    """Return breakers' states, `age` seconds old at most; one question to the Redis they share."""
    asked_at = monotonic()
    if asked_at - min(each.read_mode[0] for each in every) >= age:
        known: dict[bytes, Mode] = {b"open": "open", b"half_open": "half_open"}
        try:
            keys = [each.breaker_keys[0] for each in every]
            kept = every[0].redis.ask(lambda: every[0].ask_modes(keys))
            found = [known.get(each, "closed") for each in kept]
        except Gone:
            found = [each.local.breaker.mode for each in every]
        for each, mode in zip(every, found, strict=True):
            each.read_mode = asked_at, mode
    return [each.read_mode[1] for each in every]
