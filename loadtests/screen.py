"""What a person sees while it runs: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from loadtests.bench import Job
from loadtests.generator import Progress as Sending
from loadtests.measure import Tell

# Seconds between two plain lines: a log stays readable over an hour.
PLAIN_EVERY = 10.0
_MARKS = {"measured": "✓", "invalid": "!", "partial": "…", "missing": "✗"}


class Screen:
    """Shows the run that is under way, and one line for each that ended."""

    def __init__(self, bars: Progress | None, console: Console) -> None:
        self._bars = bars
        self._console = console
        self._task: TaskID | None = None
        self._said = 0.0

    def announce(self, number: int, of: int, job: Job) -> Tell:
        """Begin to show a run; return what is to be told of it."""
        title = f"[{number}/{of}] {job.scenario.name} {job.strategy} {job.variant}".rstrip()
        if self._bars is None:
            self._console.print(f"{title} …", highlight=False, markup=False)
            return self._plain
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(title.replace("[", r"\["), total=None, state="starts")
        return self._bar

    def _bar(self, phase: str, sending: Sending) -> None:
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, state=_words(phase, sending))

    def _plain(self, phase: str, sending: Sending) -> None:
        if time.monotonic() - self._said > PLAIN_EVERY:
            self._said = time.monotonic()
            self._console.print(f"    {_words(phase, sending)}", highlight=False, markup=False)

    def ended(self, outcome: dict[str, Any]) -> None:
        """Say how a run went."""
        mark = _MARKS[outcome["status"]]
        line = f"{mark} {outcome['scenario']} {outcome['strategy']} {outcome['variant']}".rstrip()
        self._console.print(f"{line}: {_brief(outcome)}", highlight=False, markup=False)


def _words(phase: str, sending: Sending) -> str:
    if not sending.sent:
        return phase
    return (
        f"{phase}: {sending.sent} sent, {sending.in_flight} wait, {sending.good} good, "
        f"{sending.failed} failed"
    )


def _brief(outcome: dict[str, Any]) -> str:
    parts = []
    for phase in outcome.get("phases", []):
        for name, stream in phase["streams"].items():
            summary = stream["summary"]
            latency = summary["latency"]
            middle = f", p50 {latency['p50']:.3f} s" if latency else ""
            parts.append(
                f"{name} {summary['goodput']:.1f}/s ({summary['asked']} asked){middle}, "
                f"{summary['error_share']:.0%} failed"
            )
    return "; ".join([*parts, *filter(None, [outcome.get("reason", "")])])


@contextmanager
def screen() -> Iterator[Screen]:
    """Show on stderr, so that stdout stays for what was asked for."""
    console = Console(stderr=True, no_color="NO_COLOR" in os.environ, soft_wrap=True)
    if not sys.stderr.isatty():
        yield Screen(None, console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(20), TextColumn("{task.fields[state]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        yield Screen(bars, console)
