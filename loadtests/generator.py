"""Send what streams say, and note what came of each request: one process, one event loop.

It judges itself: how late it sent is in every sample, how much of its core it used in each phase's
figures. Too much of either makes a run invalid, and so does a request that it could not send.
"""

import asyncio
import errno
import itertools
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from loadtests.arrivals import Closed, Schedule
from loadtests.calls import JUDGES, Call
from loadtests.metrics import NOT_SENT, TIME_OUT, UNFINISHED, Sample
from loadtests.wire import Answer, Wire

# Seconds between two reports of progress: often enough for an eye.
TICK = 0.5
# Of a connect: this process, or the machine, has no descriptor or no port left.
LACKS = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL)


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests of one kind to one address. `begin` in seconds after the plan's start."""

    name: str
    host: str
    port: int
    call: Call
    arrivals: Schedule | Closed
    begin: float = 0.0
    time_out: float = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """All streams of a phase; `start` on the monotonic clock, `cap` in seconds after it."""

    streams: tuple[Stream, ...]
    start: float
    cap: float


@dataclass(slots=True)
class Progress:
    """How far it is."""

    sent: int = 0
    good: int = 0
    failed: int = 0
    in_flight: int = 0


@dataclass(slots=True)
class Report:
    """What one generator measured; `busy` is its share of one core."""

    samples: list[Sample] = field(default_factory=list)
    busy: float = 0.0


class Generator:
    """Runs one share of a plan: request number i belongs to generator i modulo `of`."""

    def __init__(self, plan: Plan, *, share: int = 0, of: int = 1) -> None:
        self.plan = plan
        self.progress = Progress()
        self._share, self._of = share, of
        self._samples: list[Sample] = []
        self._idle: dict[tuple[str, int], list[Wire]] = {}
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """End now; what is in flight counts as unfinished."""
        self._stop.set()

    async def run(self, tell: Callable[[Progress], None] = lambda _: None) -> Report:
        """Send everything, or what can be sent until the cap."""
        cpu = time.process_time()
        work = asyncio.gather(
            *(
                self._closed(stream, stream.arrivals)
                if isinstance(stream.arrivals, Closed)
                else self._open(stream, stream.arrivals.times())
                for stream in self.plan.streams
            )
        )
        ticker = asyncio.create_task(self._tell(tell))
        stopping = asyncio.ensure_future(self._stop.wait())
        left = self.plan.start + self.plan.cap - time.monotonic()
        ends: set[asyncio.Future[Any]] = {work, stopping}
        await asyncio.wait(ends, timeout=left, return_when="FIRST_COMPLETED")
        for task in (work, stopping, ticker):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await work
        tell(self.progress)
        cpu = time.process_time() - cpu
        # From the start: until then it has nothing to send. It may be ended before.
        busy = cpu / max(time.monotonic() - self.plan.start, cpu, 1e-9)
        for wire in itertools.chain.from_iterable(self._idle.values()):
            wire.close()
        return Report(self._samples, busy)

    async def _tell(self, tell: Callable[[Progress], None]) -> None:
        while True:
            tell(self.progress)
            await asyncio.sleep(TICK)

    async def _open(self, stream: Stream, times: Iterable[float]) -> None:
        begin = self.plan.start + stream.begin
        async with asyncio.TaskGroup() as sent:
            for at in itertools.islice(times, self._share, None, self._of):
                intended = begin + at
                await _until(intended)
                sent.create_task(self._send(stream, intended))

    async def _closed(self, stream: Stream, closed: Closed) -> None:
        begin = self.plan.start + stream.begin
        left = iter(range(self._share, closed.requests, self._of))

        async def connection(number: int) -> None:
            intended = begin + closed.opens(number)
            await _until(intended)
            for _ in left:
                intended = await self._send(stream, intended)

        async with asyncio.TaskGroup() as group:
            for number in range(self._share, closed.connections, self._of):
                group.create_task(connection(number))

    async def _send(self, stream: Stream, intended: float) -> float:
        """Send one request, note it, and return when it ended."""
        self.progress.sent += 1
        self.progress.in_flight += 1
        sent = time.monotonic()
        outcome, first_byte = UNFINISHED, None
        try:
            async with asyncio.timeout(stream.time_out):
                answer = await self._exchange(stream)
            outcome, first_byte = JUDGES[stream.call.judge](answer), answer.first_byte
        except TimeoutError:
            outcome = TIME_OUT
        except ConnectionRefusedError:
            outcome = "refused"
        except OSError as error:
            outcome = NOT_SENT if error.errno in LACKS else "reset"
        finally:
            end = time.monotonic()
            sample = Sample(stream.name, intended, sent, first_byte, end, outcome)
            self._samples.append(sample)
            self.progress.in_flight -= 1
            self.progress.good += sample.ok
            self.progress.failed += not sample.ok
        return end

    async def _exchange(self, stream: Stream) -> Answer:
        idle = self._idle.setdefault((stream.host, stream.port), [])
        while idle and not idle[-1].usable:
            idle.pop().close()
        wire = idle.pop() if idle else await Wire.connect(stream.host, stream.port)
        try:
            answer = await wire.ask(stream.call.request)
        except BaseException:
            wire.close()
            raise
        idle.append(wire)
        return answer


async def _until(moment: float) -> None:
    """Sleep until then and never less: uvloop wakes up to a millisecond too soon."""
    await asyncio.sleep(0)  # also when it is late: answers must be read between two sends
    while (left := moment - time.monotonic()) > 0:  # noqa: ASYNC110 # nothing else tells the time
        await asyncio.sleep(left)
