"""What the generator itself can do: its rate at a server that does nothing.

A server's figure near this one is the generator's. Measured before each bench; its report has it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import uvloop

from loadtests.arrivals import Closed, Constant, Schedule
from loadtests.calls import make
from loadtests.fleet import SPAWN, GeneratorError, drive
from loadtests.generator import Stream
from loadtests.metrics import Summary

# About a parcel with its label's links.
_BODY = b"x" * 2048
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
CONNECTIONS = 50
# Some two seconds of work: enough for a figure within 5 %.
REQUESTS = 10_000
# The highest rate that any scenario asks of its generator.
PACED_RATE = 500


class _Nothing(asyncio.Protocol):
    """Answers the same to everything. A request here is always one read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(_ANSWER)  # type: ignore[attr-defined]  # a transport of both ways


def _serve(pipe: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Nothing, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


@contextmanager
def nothing_server() -> Iterator[int]:
    """Run a server that does nothing; yields its port."""
    ours, theirs = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()  # so that one that dies as it starts is heard of
    try:
        yield ours.recv()
    finally:
        process.kill()
        process.join()


def measure(
    *, generators: int = 1, requests: int = REQUESTS, seconds: float = 3
) -> dict[str, float]:
    """Measure the generator alone: as fast as it can, then paced."""
    with nothing_server() as port:
        fast = _run(port, Closed(CONNECTIONS, requests), generators)
        paced = _run(port, Constant(PACED_RATE, seconds), generators)
    if not paced.good:
        raise GeneratorError(f"a server that does nothing answered {paced.errors}")
    return {
        "requests_per_second": fast.throughput,
        "paced_rate": PACED_RATE,
        "paced_late_share": paced.late_sends / paced.asked,
        "generators": generators,
    }


def _run(port: int, arrivals: Schedule | Closed, generators: int) -> Summary:
    call = make("hello", host="127.0.0.1", login="")
    stream = Stream("ceiling", "127.0.0.1", port, call, arrivals)
    return drive(stream, cap=60, generators=generators)
