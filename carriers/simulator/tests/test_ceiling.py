"""How many calls it holds at once: it must not be what limits a load test."""

import asyncio

import aiohttp
import pytest

from carriers.simulator.__main__ import raise_file_limit
from carriers.simulator.tests.process import buy, carrier_state, simulator_process

# The design's promise: 5,000 calls in flight in one process.
CALLS = 5_000
# Long enough that the last of them is sent before the first is answered, on two busy cores.
SECONDS = 12.0


@pytest.mark.integration
@pytest.mark.deployment
async def test_five_thousand_calls_are_in_flight_at_once_and_all_are_answered(tmp_path):
    raise_file_limit()
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with (
        simulator_process(tmp_path / "ledger.jsonl") as (_, control),
        aiohttp.ClientSession(connector=connector) as session,
    ):
        await session.put(f"{control}/carriers/tortoise/latency", json={"fixed": SECONDS})
        url = (await carrier_state(session, control, "tortoise"))["url"]
        answers = await asyncio.gather(*(buy(session, url, f"r{n}") for n in range(CALLS)))
        assert all(answers)
        assert (await carrier_state(session, control, "tortoise"))["peak_in_flight"] >= CALLS
        # The control: the server counts calls at once, not calls.
        await session.post(f"{control}/reset")
        await session.put(f"{control}/carriers/tortoise/latency", json={"fixed": 0})
        assert all([await buy(session, url, f"one-{n}") for n in range(5)])
        assert (await carrier_state(session, control, "tortoise"))["peak_in_flight"] == 1
