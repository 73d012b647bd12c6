"""A whole simulator in the test's own loop, on free loopback ports, fast and without a clock."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from carriers.simulator.catalogue import CATALOGUE
from carriers.simulator.latency import fixed
from carriers.simulator.settings import Address, Settings
from carriers.simulator.simulator import Simulator
from carriers.simulator.tests.clients import Clients


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        control=Address("127.0.0.1", 0, "SIMULATOR_URL"),
        carriers={code: Address("127.0.0.1", 0, code) for code in CATALOGUE},
        latency={code: fixed(0) for code in CATALOGUE},
        ledger=tmp_path / "ledger.jsonl",
        tracking_step=0,
    )


@pytest_asyncio.fixture
async def simulator(settings: Settings) -> AsyncIterator[Simulator]:
    simulator = Simulator(replace(settings))
    await simulator.start()
    yield simulator
    await simulator.stop()


@pytest_asyncio.fixture
async def clients(simulator: Simulator) -> AsyncIterator[Clients]:
    async with aiohttp.ClientSession() as session:
        yield Clients(simulator, session)
