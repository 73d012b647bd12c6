"""Measure the simulator itself:

`python -m carriers.simulator.ceiling`. A load test measures the application only while the
simulator is not the bottleneck. Two numbers show its limit: how many calls it holds at once, and
how many it answers a second.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from carriers.simulator.__main__ import raise_file_limit
from carriers.simulator.catalogue import CATALOGUE

_RECEIVER = {
    "name": "Test Receiver",
    "street": "Havenstraat",
    "house_number": "12",
    "postal_code": "3511 AB",
    "city": "Utrecht",
    "country": "NL",
}
_KEY = {"Authorization": "Bearer ceiling"}
# Files that a process opens besides its calls: sockets, ledger, libraries. Measured: under 40.
_OTHER_FILES = 200
# A start takes half a second alone, and several on a machine that is busy.
_READY_WITHIN = 30.0


@dataclass(frozen=True, slots=True)
class Burst:
    """What became of calls that were sent all at once."""

    sent: int
    right: int
    peak_in_flight: int
    seconds: float


@asynccontextmanager
async def simulator_process(
    ledger: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a simulator on free ports; yields the process and the control API's URL."""
    control = f"http://127.0.0.1:{_free_port()}"
    carriers = {f"CARRIER_URL_{code.upper()}": "http://127.0.0.1:0" for code in CATALOGUE}
    process = _spawn(
        {
            **carriers,
            "SIMULATOR_URL": control,
            "SIMULATOR_LEDGER": str(ledger),
            **(environment or {}),
        }
    )
    try:
        await _ready(control, process)
        yield process, control
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


def _spawn(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "carriers.simulator"]
    return subprocess.Popen(command, env={**os.environ, **environment})  # noqa: S603  no shell


async def carrier_state(session: aiohttp.ClientSession, control: str, code: str) -> Any:
    """Return what `GET /carriers` says of one carrier."""
    async with session.get(f"{control}/carriers") as response:
        carriers = (await response.json())["carriers"]
    return next(carrier for carrier in carriers if carrier["code"] == code)


async def burst(control: str, calls: int, seconds: float, *, prefix: str = "burst") -> Burst:
    """Send `calls` at once to a carrier that takes `seconds`; an answer is right with its label."""
    raise_file_limit()
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        await session.post(f"{control}/reset")
        await session.put(f"{control}/carriers/tortoise/latency", json={"fixed": seconds})
        url = (await carrier_state(session, control, "tortoise"))["url"]
        began = time.monotonic()
        answers = await asyncio.gather(
            *(buy(session, url, f"{prefix}-{number}") for number in range(calls))
        )
        ended = time.monotonic()
        peak = (await carrier_state(session, control, "tortoise"))["peak_in_flight"]
    return Burst(calls, sum(answers), peak, ended - began)


async def rate(control: str, seconds: float, clients: int = 100) -> float:
    """Return answers a second of a carrier without latency, to `clients` that never pause."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await session.put(f"{control}/carriers/tortoise/latency", json={"fixed": 0})
        url = (await carrier_state(session, control, "tortoise"))["url"]
        began = time.monotonic()
        answered = await asyncio.gather(
            *(_buy_until(session, url, f"rate-{n}", began + seconds) for n in range(clients))
        )
        return sum(answered) / (time.monotonic() - began)


async def _buy_until(session: aiohttp.ClientSession, url: str, prefix: str, end: float) -> int:
    answered = 0
    while time.monotonic() < end:
        answered += await buy(session, url, f"{prefix}-{answered}")
    return answered


async def buy(session: aiohttp.ClientSession, url: str, reference: str) -> bool:
    """Buy one label; return whether the answer is right."""
    body = {"reference": reference, "product": 10, "weight_g": 2000, "receiver": _RECEIVER}
    try:
        async with session.post(f"{url}/shipments", json=body, headers=_KEY) as response:
            answer = await response.json()
    except aiohttp.ClientError:
        return False
    return response.status == 201 and answer["reference"] == reference


async def _ready(control: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _READY_WITHIN
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < end and process.poll() is None:
            try:
                async with session.get(f"{control}/healthz"):
                    return
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)
    raise RuntimeError(f"the simulator did not start (exit code {process.poll()})")


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def _measure(steps: list[int], seconds: float) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - _OTHER_FILES
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "ledger.jsonl"
        async with simulator_process(ledger) as (_, control):
            _say(f"answered: {await rate(control, 3.0):.0f} calls/s with 100 clients, no latency")
            for calls in steps:
                if calls > most:
                    _say(f"{calls} in flight: not tried, the file limit allows {most}")
                    return
                result = await burst(control, calls, seconds, prefix=f"burst-{calls}")
                _say(
                    f"{calls} sent at once, {seconds:.0f} s each: {result.peak_in_flight} in "
                    f"flight at once, {result.right} right, {result.seconds:.1f} s in all"
                )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Print the rate, and a line for each size of burst."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, nargs="+", default=[1000, 5000, 10_000])
    parser.add_argument("--seconds", type=float, default=8.0, help="latency of each call")
    chosen = parser.parse_args()
    asyncio.run(_measure(chosen.calls, chosen.seconds))


if __name__ == "__main__":
    main()
