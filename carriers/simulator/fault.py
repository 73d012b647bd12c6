"""What a fault is; each kind is a file in `faults/`, and registers itself by being defined."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any, ClassVar, Protocol

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.draw import draw
from carriers.simulator.params import Params

# A week: a fault that shall last longer has no `for`.
LONGEST = 7 * 86_400.0

KINDS: dict[str, type[Fault]] = {}


class Premises(Protocol):
    """What a fault may use of the carrier that it strikes."""

    def error(self, status: int) -> Response:
        """Return a server error in this carrier's own form."""

    def throttled(self, retry_after: int | None) -> Response:
        """Return a 429 in this carrier's own form."""

    def later(self, work: Coroutine[Any, Any, object]) -> None:
        """Run something that no client waits for."""


class Fault:
    """A kind of failure, for a share of the calls, for a time.

    A kind sets `kind`, reads its parameters in `__init__`, and overrides `apply` (or `refusing`).
    """

    kind: ClassVar[str]
    # False where it strikes the carrier as a whole: then it has no share, and no magic value.
    per_call: ClassVar[bool] = True
    # The parameter that a magic value's argument sets, as the 5 of SIM:SLOW:5.
    magic_argument: ClassVar[str | None] = None

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls

    def __init__(self, params: Params) -> None:
        self.params = params
        self.began = time.monotonic()
        self.after = params.number("after", 0.0, high=LONGEST)
        self.lasts = params.optional("for", high=LONGEST)
        self.share, self.seed, self.calls = 1.0, 1, "all"
        if self.per_call:
            self.share = params.number("share", 1.0, high=1.0)
            self.seed = params.whole("seed", 1, low=0, high=2**31)
            self.calls = params.choice("calls", "buy", ("buy", "lookup", "void", "all"))
        self.struck = 0
        self._tries: Counter[str] = Counter()

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        """Answer a call that this fault strikes; `proceed` does what the carrier would do."""
        return await proceed()

    def refusing(self, now: float) -> bool:
        """Return whether the carrier's port is closed now."""
        return False

    @property
    def ends_at(self) -> float:
        """Return when it is over, by the monotonic clock."""
        return math.inf if self.lasts is None else self.began + self.after + self.lasts

    def state(self, now: float) -> str:
        """Return waiting, active or over; `now` by the monotonic clock."""
        if now < self.began + self.after:
            return "waiting"
        return "active" if now < self.ends_at else "over"

    def strikes(self, call: Call, now: float) -> bool:
        """Decide whether this call fails; the same for the same calls and seed."""
        if self.state(now) != "active" or self.calls not in ("all", call.kind):
            return False
        if self.share < 1:
            # Each try of a reference is drawn separately: with a share of 5 %, no parcel may find a
            # carrier that never answers.
            self._tries[call.key] += 1
            chance = draw(self.seed, self.kind, call.key, self._tries[call.key])
            if chance >= self.share:
                return False
        self.struck += 1
        return True

    def describe(self, now: float) -> dict[str, object]:
        """Return what `GET /faults` shows."""
        return {
            "kind": self.kind,
            "params": self.params.values,
            "state": self.state(now),
            # Seconds until it is over; None where only somebody ends it.
            "left": None if self.lasts is None else max(0.0, self.ends_at - now),
            "struck": self.struck,
        }


def make(kind: str, params: Params) -> Fault:
    """Make a fault of a registered kind; raises BadParams, or KeyError for an unknown one."""
    fault = KINDS[kind](params)
    params.finish()
    return fault
