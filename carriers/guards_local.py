"""What guards a carrier in one process while Redis is away, and what is owed to Redis then.

Each process counts for itself, so that the limit of calls in flight holds per process; the breaker
starts closed. When Redis comes back, or comes back empty, it does not know the slots taken before
for as long as their calls last. Slots that a process could not give back meanwhile go back with its
next question.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from carriers import breaker_rules as rules
from carriers.breaker_rules import Admission, BreakerConfig, BreakerState

LOCAL = "local:"
# Why 4: a single owner gets four fifths of the slots, two that take all they can 44 % each. With 9
# a new owner found a tenth free, and was turned away when it needed more in its next second. With
# fewer than five slots there is no limit.
SHARE = 4
# Why 200 recent calls: enough for a p95 with ten calls beyond it, few enough to read all.
RECENT = 200

# A slot's token, empty where the call is not allowed, and the breaker's answer; None: no slot.
Entry = tuple[str, Admission | None]


class LocalGuards:
    """The guards of one carrier in this process; see `carriers.guards.CarrierGuards`."""

    def __init__(self, limit: int, lease: float, share: int, config: BreakerConfig) -> None:
        self.limit = limit
        self.lease = lease
        self.share = share
        self.config = config
        self.slots: set[str] = set()
        self.breaker = BreakerState()
        self.recent: deque[tuple[float, bool]] = deque(maxlen=RECENT)
        # Slots to give back as soon as Redis is there, until their leases end (`time.monotonic`).
        self.owed: dict[str, float] = {}
        self._lock = threading.Lock()

    def enter(self, tokens: Sequence[str]) -> list[Entry]:
        """Take a slot for each of these and ask the breaker; `token` as the shared slot's."""
        entries: list[Entry] = []
        for token in tokens:
            slot = f"{LOCAL}{token}"
            if not self._take(slot):
                entries.append(("", None))
                continue
            admission = self.admit(token)
            if not admission.allowed:
                self.free([slot])
            entries.append((slot if admission.allowed else "", admission))
        return entries

    def _take(self, slot: str) -> bool:
        owner = slot.rpartition(".")[0]
        with self._lock:
            free = self.limit - len(self.slots)
            own = sum(taken.rpartition(".")[0] == owner for taken in self.slots)
            if free <= 0 or (owner != LOCAL and self.share and own >= self.share * free):
                return False
            self.slots.add(slot)
        return True

    def free(self, slots: Iterable[str]) -> None:
        """Give slots back; those of Redis are not among them."""
        with self._lock:
            self.slots.difference_update(slots)

    def admit(self, token: str) -> Admission:
        """Ask the breaker before a call; the token becomes the probe's."""
        with self._lock:
            admission, self.breaker = rules.admit(
                self.breaker, time.monotonic(), token, self.config
            )
        return admission

    def note(
        self, outcomes: Iterable[tuple[bool, float, str]], throttled: Iterable[float] = ()
    ) -> None:
        """Tell the breaker what calls have shown."""
        with self._lock:
            for failed, lasted, key in outcomes:
                self.breaker = rules.record(
                    self.breaker, time.monotonic(), failed, self.config, lasted, key=key
                )
            for seconds in throttled:  # last: a success beside a 429 must not open the gate
                self.breaker = rules.throttle(self.breaker, time.monotonic(), seconds, self.config)

    def record_probe(self, token: str, *, alive: bool) -> None:
        """Tell the breaker a probe's result."""
        with self._lock:
            self.breaker = rules.record_probe(self.breaker, time.monotonic(), token, alive)

    def pace(self) -> float | None:
        """Return the calls per second that the breaker admits now."""
        return rules.pace(self.breaker, time.monotonic(), self.config)

    def take_owed(self) -> dict[str, float]:
        """Take the slots that are owed to Redis, with their leases' ends."""
        with self._lock:
            owed, self.owed = self.owed, {}
        return {token: ends for token, ends in owed.items() if ends > time.monotonic()}

    def owe(self, owed: Mapping[str, float], tokens: Iterable[str]) -> None:
        """Keep these for the next question; the tokens' leases begin now at the latest."""
        with self._lock:
            self.owed |= {**owed, **dict.fromkeys(tokens, time.monotonic() + self.lease)}
