"""What `make bench` and `make bench-full` run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from loadtests import estimate, scenario
from loadtests.bench import Wishes, jobs
from loadtests.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a suite: without strategies all that this machine can run."""

    scenarios: tuple[str, ...]
    strategies: tuple[str, ...] = ()
    repeats: int = 1


# Under 15 minutes: some 20 s for each strategy's talk, a minute for each outage. So the outage has
# the base case, the one that it was published with, and the two that we recommend.
QUICK = (
    Part(("talk",)),
    Part(("outage",), ("uwsgi-prefork", "uwsgi-gevent", "asgi-hold", "nginx-accel")),
)
# What doesn't fit into it is missing: whoever says `make bench` waits no longer than that.
QUICK_SECONDS = 15 * 60.0
# Three repeats are the least that show a range. It takes a night.
FULL = (Part(tuple(scenario.names()), repeats=3),)


@dataclass(frozen=True, slots=True)
class Planned:
    """A part on this machine."""

    name: str
    scenarios: Sequence[Scenario]
    wishes: Wishes

    def estimate(self) -> tuple[int, float, float]:
        """Return how many runs it has, and how many seconds they take: about, and at worst."""
        spans = [estimate.span(job.scenario) for job in jobs(self.scenarios, self.wishes)]
        return len(spans), sum(least for least, _ in spans), sum(most for _, most in spans)


def plan(form: str, available: Sequence[str], note: str) -> list[Planned]:
    """Return the parts of the `quick` or `full` suite with the strategies that there are."""
    quick = form == "quick"
    until = time.monotonic() + QUICK_SECONDS if quick else math.inf
    return [
        Planned(
            "-".join(part.scenarios),
            [scenario.load(name, quick=quick) for name in part.scenarios],
            Wishes(
                tuple(name for name in available if name in (part.strategies or (name,))),
                repeats=part.repeats,
                quick=quick,
                note=note,
                until=until,
            ),
        )
        for part in (QUICK if quick else FULL)
    ]


def announcement(parts: Sequence[Planned]) -> str:
    """Return the estimate of all parts as a sentence."""
    runs, *seconds = map(sum, zip(*(part.estimate() for part in parts), strict=True))
    least, most = (math.ceil(each / 60) for each in seconds)
    said = f"{runs} runs: about {least} minutes, {most} if every strategy needs all of its time."
    if any(part.wishes.until < math.inf for part in parts):
        said += f" What doesn't fit into {QUICK_SECONDS / 60:.0f} minutes is left out."
    return said
