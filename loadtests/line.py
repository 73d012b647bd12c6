"""200 clients ask for a label at once, at a carrier that takes ten seconds.

    make run            # in one terminal
    make bench-line     # in another

Prints how long the slowest of them waited, and what a request that needs no carrier took meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from loadtests.calls import RECEIVER

# Seconds between two cheap reads: enough samples in ten seconds, too few to be a load.
PROBE_EVERY = 0.1
PARCEL = RECEIVER | {"request_label": True}


@dataclass(slots=True)
class Seen:
    """What the clients saw; times in seconds."""

    waits: list[float] = field(default_factory=list)
    labelled: int = 0
    failures: list[str] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)


def read_env(path: Path) -> dict[str, str]:
    """Return the values that `make run` wrote when all was ready."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        sys.exit(f"{path} is not there: start `make run` first, in another terminal")
    return dict(line.split("=", 1) for line in lines if "=" in line)


async def ask(session: aiohttp.ClientSession, base: str, method: int, seen: Seen) -> None:
    """Ask for one label and note how it went."""
    body = json.dumps({"parcel": PARCEL | {"shipment": {"id": method}}})
    started = time.monotonic()
    try:
        async with session.post(f"{base}/api/v2/parcels", data=body) as response:
            answer = await response.json()
            status = response.status
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        seen.failures.append(f"{type(error).__name__}: {error}")
        return
    seen.waits.append(time.monotonic() - started)
    if status == 200 and answer["parcel"]["label"]:
        seen.labelled += 1
    else:
        seen.failures.append(f"{status}: {json.dumps(answer)[:120]}")


async def probe(session: aiohttp.ClientSession, base: str, seen: Seen) -> None:
    """Read the statuses until cancelled; each read counts from its intended start."""
    due = time.monotonic()
    while True:
        await asyncio.sleep(max(due - time.monotonic(), 0))
        async with session.get(f"{base}/api/v2/parcels/statuses") as response:
            await response.read()
        seen.probes.append(time.monotonic() - due)
        due += PROBE_EVERY


async def measure(env: dict[str, str], clients: int, method: int) -> Seen:
    """Let all clients ask at the same moment."""
    seen = Seen()
    options: dict[str, Any] = {
        "headers": {
            "Authorization": aiohttp.encode_basic_auth(env["PUBLIC_KEY"], env["SECRET_KEY"])
        },
        "timeout": aiohttp.ClientTimeout(total=120),
    }
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=connector, **options) as session,
        aiohttp.ClientSession(**options) as probes,
    ):
        prober = asyncio.create_task(probe(probes, env["BASE_URL"], seen))
        await asyncio.gather(*(ask(session, env["BASE_URL"], method, seen) for _ in range(clients)))
        prober.cancel()
        await asyncio.wait([prober])
    return seen


def main() -> None:
    """Run once and print the two figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env-file", type=Path, default=Path(".run/demo.env"))
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--method", type=int, default=10, help="shipping method")
    options = parser.parse_args()
    seen = asyncio.run(measure(read_env(options.env_file), options.clients, options.method))
    print(f"labels            {seen.labelled} of {options.clients}")
    if seen.waits:
        slowest, median = max(seen.waits), statistics.median(seen.waits)
        print(f"waited            median {median:.2f} s, slowest {slowest:.2f} s")
    if seen.probes:
        reads = sorted(seen.probes)
        print(
            f"cheap reads       median {statistics.median(reads) * 1000:.0f} ms,"
            f" slowest {reads[-1] * 1000:.0f} ms, {len(reads)} of them"
        )
    for failure in sorted(set(seen.failures))[:5]:
        print(f"failed            {failure}")
    sys.exit(1 if seen.failures else 0)


if __name__ == "__main__":
    main()
