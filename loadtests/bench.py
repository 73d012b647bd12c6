"""Many runs: strategies by variants by repeats, in random order, each with its reason."""

import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from deploy import strategy as strategies
from deploy.stores import PostgresServer
from loadtests import ceiling, machine, results
from loadtests.deployment import EQUAL
from loadtests.estimate import span
from loadtests.measure import Tell, measure
from loadtests.scenario import Scenario

# The published base case: five processes.
WORKERS = 5
# What may go wrong with one strategy without ending the bench for the others.
_FAILURES = (OSError, RuntimeError, psycopg.Error)


@dataclass(frozen=True, slots=True)
class Job:
    """One run to make."""

    scenario: Scenario
    strategy: str
    variant: str
    repeat: int

    @property
    def label(self) -> str:
        """Return what a person calls it; also the name of its samples' file."""
        parts = [self.scenario.name, self.strategy, self.variant.replace(" ", "-")]
        return "_".join([part for part in parts if part] + [str(self.repeat)])


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the caller wants of a bench; no run begins that may not end `until` (monotonic)."""

    strategies: tuple[str, ...]
    repeats: int = 1
    seed: int = 1
    generators: int = 1
    quick: bool = False
    note: str = ""
    until: float = math.inf
    workers: int = WORKERS

    @property
    def sizes(self) -> dict[str, str]:
        """Return the environment that sizes a strategy; 0 workers leave it as its folder has it."""
        return {"WEB_WORKERS": str(self.workers)} if self.workers else {}

    @property
    def sizing(self) -> str:
        """Return the rule in words."""
        if not self.workers:
            return "each strategy as its folder has it"
        return f"each strategy runs {self.workers} web processes, unless its number is fixed"


def jobs(scenarios: Sequence[Scenario], wishes: Wishes) -> list[Job]:
    """Return all runs: one repeat after the other, the strategies of each in random order.

    So a machine that grows warm or busy meets all strategies, not always the last. A variant that
    sets `STRATEGY` is of that one alone.
    """
    dice = random.Random(wishes.seed)
    ordered: list[Job] = []
    for scenario in scenarios:
        for repeat in range(1, wishes.repeats + 1):
            round_ = [
                Job(scenario, strategy, variant, repeat)
                for strategy in wishes.strategies
                for variant, sizes in scenario.variants.items()
                if sizes.get("STRATEGY", strategy) == strategy
            ]
            dice.shuffle(round_)
            ordered += round_
    return ordered


class Bench:
    """Makes the runs one after the other; whatever happens, what was measured is written."""

    def __init__(self, folder: Path, wishes: Wishes) -> None:
        self.folder = folder
        self.wishes = wishes
        self.interrupted = False
        self.results: dict[str, Any] = {}

    def run(
        self,
        scenarios: Sequence[Scenario],
        announce: Callable[[int, int, Job], Tell],
        ended: Callable[[dict[str, Any]], None],
    ) -> dict[str, Any]:
        """Run all; `announce` is told of each before, `ended` of its outcome."""
        (self.folder / "samples").mkdir(parents=True, exist_ok=True)
        planned = jobs(scenarios, self.wishes)
        self.results = self._head(scenarios)
        with suppress(KeyboardInterrupt), PostgresServer(fsync=True) as postgresql:
            for number, job in enumerate(planned, 1):
                outcome = self._one(job, postgresql, announce(number, len(planned), job))
                self.results["runs"].append(outcome)
                results.write(self.folder, self.results)
                ended(outcome)
                if self.interrupted:
                    break
        self.results["complete"] = len(self.results["runs"]) == len(planned)
        results.write(self.folder, self.results)
        return self.results

    def _head(self, scenarios: Sequence[Scenario]) -> dict[str, Any]:
        return {
            "began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "note": self.wishes.note,
            "quick": self.wishes.quick,
            "repeats": self.wishes.repeats,
            "seed": self.wishes.seed,
            "sizing": self.wishes.sizing,
            "equal": EQUAL,
            "machine": machine.card(),
            "ceiling": ceiling.measure(generators=self.wishes.generators),
            "scenarios": {scenario.name: _facts(scenario) for scenario in scenarios},
            "unavailable": unavailable(),
            "runs": [],
        }

    def _one(self, job: Job, postgresql: PostgresServer, tell: Tell) -> dict[str, Any]:
        outcome: dict[str, Any] = {
            "scenario": job.scenario.name,
            "strategy": job.strategy,
            "variant": job.variant,
            "repeat": job.repeat,
            "family": strategies.load(job.strategy).family,
        }
        if time.monotonic() + span(job.scenario)[1] > self.wishes.until:
            return outcome | {"status": "missing", "reason": "no time was left: run it by itself"}
        try:
            run = measure(
                job.strategy,
                job.scenario,
                postgresql,
                self.wishes.sizes | dict(job.scenario.variants[job.variant]),
                generators=self.wishes.generators,
                tell=tell,
            )
        except KeyboardInterrupt:
            self.interrupted = True
            return outcome | {"status": "missing", "reason": "interrupted"}
        except _FAILURES as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            return outcome | {"status": "missing", "reason": said}
        results.write_samples(self.folder / "samples" / f"{job.label}.csv.gz", run.samples)
        self.interrupted = run.interrupted
        status = {
            "status": "invalid" if run.reasons else "measured",
            "reason": "; ".join(run.reasons),
        }
        if run.interrupted:
            status = {"status": "partial", "reason": "interrupted"}
        return outcome | status | run.figures


def _facts(scenario: Scenario) -> dict[str, Any]:
    return {
        "title": scenario.title,
        "question": scenario.question,
        "parameters": dict(scenario.parameters),
        "carriers": {name: dict(latency) for name, latency in scenario.carriers.items()},
        "environment": dict(scenario.environment),
        "variants": list(scenario.variants),
        "charts": list(scenario.charts),
    }


def unavailable() -> dict[str, str]:
    """Return the strategies that this machine can't run, each with the reason."""
    every = {name: strategies.why_unavailable(strategies.load(name)) for name in strategies.names()}
    return {name: reason for name, reason in every.items() if reason}


def available(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the strategies to run: those wanted, or all that this machine can run."""
    if wanted:
        return tuple(strategies.load_available(name).name for name in wanted)
    lacking = unavailable()
    return tuple(name for name in strategies.names() if name not in lacking)
