"""The whole process: it starts, keeps what it sold, and ends when it is told to."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time

import aiohttp
import pytest

from carriers.simulator.tests.process import buy, carrier_state, simulator_process

pytestmark = pytest.mark.integration


async def test_what_was_sold_before_a_kill_is_known_after_a_restart(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    fast = {"SIMULATOR_LATENCY_TORTOISE": "0"}
    async with (
        aiohttp.ClientSession() as session,
        simulator_process(ledger, fast) as (process, control),
    ):
        url = (await carrier_state(session, control, "tortoise"))["url"]
        sold = await asyncio.gather(*(buy(session, url, f"r{n}") for n in range(50)))
        assert all(sold)
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)
    async with (
        aiohttp.ClientSession() as session,
        simulator_process(ledger, fast) as (_, control),
    ):
        url = (await carrier_state(session, control, "tortoise"))["url"]
        headers = {"Authorization": "Bearer ceiling"}  # as `buy` does
        params = {"reference": "r49"}
        async with session.get(f"{url}/shipments", params=params, headers=headers) as response:
            assert len((await response.json())["shipments"]) == 1
        assert (await carrier_state(session, control, "tortoise"))["booked"] == 50


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
async def test_it_ends_at_once_with_calls_in_flight_and_its_ledger_whole(tmp_path, name, capfd):
    ledger = tmp_path / "ledger.jsonl"
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
        simulator_process(ledger, {"SIMULATOR_LATENCY_TORTOISE": "600"}) as (process, control),
    ):
        url = (await carrier_state(session, control, "tortoise"))["url"]
        calls = [asyncio.create_task(buy(session, url, f"r{n}")) for n in range(1000)]
        for _ in range(200):
            if (await carrier_state(session, control, "tortoise"))["in_flight"] == 1000:
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail("a thousand calls are not in flight")
        began = time.monotonic()
        process.send_signal(name)
        assert await asyncio.to_thread(process.wait) == 0
        # One second is promised; the rest is for a machine that does other things, too.
        assert time.monotonic() - began < 3
        assert not any(await asyncio.gather(*calls))
    assert [json.loads(line) for line in ledger.read_text().splitlines()] == []
    assert "Traceback" not in capfd.readouterr().err


def run(**environment):
    command = [sys.executable, "-m", "carriers.simulator"]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_bad_value_ends_it_with_the_name_of_the_variable(tmp_path):
    done = run(SIMULATOR_SEED="one", SIMULATOR_LEDGER=str(tmp_path / "l"))
    assert done.returncode == 2
    assert done.stderr == "simulator: SIMULATOR_SEED: 'one' is not a whole number\n"


def test_a_port_that_is_taken_ends_it_with_the_name_of_the_variable(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = {
            f"CARRIER_URL_{code}": "http://127.0.0.1:0"
            for code in ("POSTNL", "TORTOISE", "COLIBRI", "LANTERN", "MERIDIAN")
        }
        port = taken.getsockname()[1]
        done = run(
            **free,
            SIMULATOR_URL=f"http://127.0.0.1:{port}",
            SIMULATOR_LEDGER=str(tmp_path / "l"),
        )
    assert done.returncode == 2
    assert "SIMULATOR_URL: can't listen" in done.stderr


def test_a_ledger_that_is_broken_ends_it(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text("nonsense\n")
    done = run(SIMULATOR_LEDGER=str(ledger))
    assert done.returncode == 2
    assert "line 1: not an entry of a ledger" in done.stderr


def test_it_imports_nothing_else_of_the_project():
    code = (
        "import sys, carriers.simulator.__main__;"
        "print([m for m in sys.modules if m.split('.')[0] in "
        "('django', 'shipping', 'parcels', 'offload', 'deploy', 'loadtests')"
        " or m.startswith('carriers.') and not m.startswith('carriers.simulator')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
