"""A simulator as a process of its own, and purchases at it."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

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
# A start takes half a second alone, and several on a machine that is busy.
_READY_WITHIN = 30.0


@asynccontextmanager
async def simulator_process(
    ledger: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a simulator on free ports; yields the process and the control API's URL."""
    control = f"http://127.0.0.1:{_free_port()}"
    carriers = {f"CARRIER_URL_{code.upper()}": "http://127.0.0.1:0" for code in CATALOGUE}
    own = {**carriers, "SIMULATOR_URL": control, "SIMULATOR_LEDGER": str(ledger)}
    process = _spawn({**os.environ, **own, **(environment or {})})
    try:
        await _ready(control, process)
        yield process, control
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


def _spawn(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "carriers.simulator"], env=environment)


async def carrier_state(session: aiohttp.ClientSession, control: str, code: str) -> Any:
    """Return what `GET /carriers` says of one carrier."""
    async with session.get(f"{control}/carriers") as response:
        carriers = (await response.json())["carriers"]
    return next(carrier for carrier in carriers if carrier["code"] == code)


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
