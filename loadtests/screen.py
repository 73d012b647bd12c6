"""What a person sees while it runs: a line for each run, and one now and then within."""

import sys
import time
from typing import Any

from loadtests.bench import Job
from loadtests.generator import Progress
from loadtests.measure import Tell

# Seconds between two lines: a log stays readable over an hour.
EVERY = 10.0
_MARKS = {"measured": "✓", "invalid": "!", "partial": "…", "missing": "✗"}


class Screen:
    """Prints on stderr, so that stdout stays for what was asked for."""

    def __init__(self) -> None:
        self._said = 0.0

    def announce(self, number: int, of: int, job: Job) -> Tell:
        """Say which run begins; return what is to be told of it."""
        said = f"[{number}/{of}] {job.scenario.name} {job.strategy} {job.variant} …"
        print(said, file=sys.stderr, flush=True)
        return self._tell

    def _tell(self, phase: str, sending: Progress) -> None:
        if time.monotonic() - self._said > EVERY:
            self._said = time.monotonic()
            said = f": {sending.sent} sent, {sending.in_flight} wait, {sending.good} good, "
            said += f"{sending.failed} failed"
            print(f"    {phase}{said if sending.sent else ''}", file=sys.stderr, flush=True)

    def ended(self, outcome: dict[str, Any]) -> None:
        """Say how a run went."""
        name = f"{outcome['scenario']} {outcome['strategy']} {outcome['variant']}".rstrip()
        print(f"{_MARKS[outcome['status']]} {name}: {_brief(outcome)}", file=sys.stderr, flush=True)


def _brief(outcome: dict[str, Any]) -> str:
    parts = []
    for phase in outcome.get("phases", []):
        for name, stream in phase["streams"].items():
            summary = stream["summary"]
            middle = f", p50 {summary['latency']['p50']:.3f} s" if summary["latency"] else ""
            parts.append(
                f"{name} {summary['goodput']:.1f}/s ({summary['asked']} asked){middle}, "
                f"{summary['error_share']:.0%} failed"
            )
    return "; ".join([*parts, *filter(None, [outcome.get("reason", "")])])
