"""Generators in processes of their own, so that nothing else delays their sends."""

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from multiprocessing.connection import Connection, wait
from typing import Any

import uvloop

from deploy.child import raise_descriptor_limit
from loadtests.generator import Generator, Plan, Progress, Report, Stream
from loadtests.metrics import Summary, summarize

# Seconds that generators get to import and connect before the first send: 0.4 alone on two cores.
LEAD = 2.0
# Seconds after the cap within which a generator must have handed over what it measured.
GRACE = 20.0

# It takes a few percent of a core, and its sends must not wait for those that take the rest.
PRIORITY = -10

SPAWN = multiprocessing.get_context("spawn")


class GeneratorError(RuntimeError):
    """A generator ended without a report."""


def send(
    make_plan: Callable[[float], Plan],
    *,
    generators: int = 1,
    tell: Callable[[Progress], None] = lambda _: None,
) -> tuple[Plan, Report, bool]:
    """Run a plan in so many processes; return it, the joint report, and whether it was cut short.

    `make_plan` gets the start on the monotonic clock, which all processes of a machine share. An
    interrupt ends the sending; what was measured until then is returned.
    """
    plan = make_plan(time.monotonic() + LEAD)
    members = [_Member(plan, number, generators) for number in range(generators)]
    interrupted = False
    try:
        while not all(member.done for member in members):
            if time.monotonic() > plan.start + plan.cap + GRACE:
                raise GeneratorError(f"a generator has not reported {GRACE:.0f} s after its end")
            try:
                ready = wait([member.pipe for member in members if not member.done], timeout=1)
                for member in members:
                    if member.pipe in ready:
                        member.read()
                parts = [astuple(member.progress) for member in members]
                tell(Progress(*map(sum, zip(*parts, strict=True))))
            except KeyboardInterrupt:
                interrupted = True
                for member in members:
                    member.interrupt()
    finally:
        for member in members:
            member.close()
    reports = [member.report for member in members if member.report is not None]
    samples = [sample for report in reports for sample in report.samples]
    busiest = max((report.busy for report in reports), default=0.0)
    return plan, Report(samples, busiest), interrupted


def drive(stream: Stream, *, cap: float, generators: int = 1) -> Summary:
    """Run one stream; return its figures."""
    _, report, interrupted = send(lambda start: Plan((stream,), start, cap), generators=generators)
    if interrupted:  # a part is no figure
        raise KeyboardInterrupt
    figures = summarize(report.samples)
    if figures is None:
        raise GeneratorError("nothing was sent")
    return figures


class _Member:
    """One generator process, seen from here."""

    def __init__(self, plan: Plan, number: int, of: int) -> None:
        self.pipe, theirs = SPAWN.Pipe(duplex=False)
        self.progress = Progress()
        self.report: Report | None = None
        self._interrupted = False
        self._process = SPAWN.Process(target=_work, args=(plan, number, of, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def done(self) -> bool:
        return self.report is not None

    def read(self) -> None:
        try:
            message: Any = self.pipe.recv()
        except EOFError:
            self._process.join()
            if self._interrupted:  # before it could hear of it: it has measured nothing
                self.report = Report()
                return
            code = self._process.exitcode
            raise GeneratorError(f"a generator ended with {code} before its report") from None
        if isinstance(message, Report):
            self.report = message
        else:
            self.progress = message

    def interrupt(self) -> None:
        self._interrupted = True
        if self._process.pid and self._process.is_alive():
            os.kill(self._process.pid, signal.SIGINT)

    def close(self) -> None:
        self._process.join(timeout=5 if self.done else 0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _work(plan: Plan, number: int, of: int, pipe: Connection) -> None:
    raise_descriptor_limit()
    with suppress(PermissionError):  # root's right; without it only the lateness is honest
        os.nice(PRIORITY)
    generator = Generator(plan, share=number, of=of)

    async def run() -> Report:
        for ending in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(ending, generator.stop)
        return await generator.run(pipe.send)

    # uvloop: half the cost of a request.
    with suppress(BrokenPipeError), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pipe.send(runner.run(run()))  # unless whoever wanted to know is gone
