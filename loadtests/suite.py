"""What `make bench` and `make bench-full` run."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from loadtests import estimate, scenario
from loadtests.bench import WORKERS, Wishes, jobs
from loadtests.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a suite: without strategies all that this machine can run."""

    scenarios: tuple[str, ...]
    strategies: tuple[str, ...] = ()
    repeats: int = 1
    workers: int = WORKERS


# The outage first, with the base case, the one that it was published with, and the two that we
# recommend: a minute each. Then some 20 s for each strategy's talk.
QUICK = (
    Part(("outage",), ("uwsgi-prefork", "uwsgi-gevent", "asgi-hold", "nginx-accel")),
    Part(("talk",)),
)
# What README compares, five times, and with more and more clients; 10,000; each strategy once.
# Where clients outnumber slots, pools are as the folders have them.
HELD = ("asgi-hold", "nginx-accel", "uwsgi-offload")
COMPARED = (*HELD[:2], "gunicorn-gthread", "uwsgi-gevent", "uwsgi-prefork")
FEW = ("crowd", "growth", "capacity")
FULL = (
    Part(("outage",), COMPARED, repeats=5),
    Part(("crowd",), COMPARED, repeats=5, workers=0),
    Part(("growth",), COMPARED, workers=0),
    Part(("capacity",), HELD),
    Part(tuple(name for name in scenario.names() if name not in FEW)),
)
# Who waits for `make bench` or `make bench-full` waits no longer: what doesn't fit is left out.
SECONDS = {"quick": 15 * 60.0, "full": 8 * 3600.0}


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
    return [
        Planned(
            "-".join(part.scenarios),
            [scenario.load(name, quick=quick) for name in part.scenarios],
            Wishes(
                tuple(name for name in available if name in (part.strategies or (name,))),
                repeats=part.repeats,
                workers=part.workers,
                quick=quick,
                note=note,
                until=time.monotonic() + SECONDS[form],
            ),
        )
        for part in (QUICK if quick else FULL)
    ]


def announcement(parts: Sequence[Planned]) -> str:
    """Return the estimate of all parts as a sentence."""
    runs, *seconds = map(sum, zip(*(part.estimate() for part in parts), strict=True))
    least, most = (math.ceil(each / 60) for each in seconds)
    said = f"{runs} runs: about {least} minutes, {most} if every strategy needs all of its time."
    left = min(part.wishes.until for part in parts) - time.monotonic()
    if left == math.inf:
        return said
    return said + f" What doesn't fit into {left / 60:.0f} minutes is left out."
