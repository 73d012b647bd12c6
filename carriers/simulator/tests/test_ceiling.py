import aiohttp
import pytest

from carriers.simulator.ceiling import burst, carrier_state, rate, simulator_process

# The design's promise: 5,000 calls in flight in one process.
CALLS = 5_000
# Long enough that the last of them is sent before the first is answered, on two busy cores.
SECONDS = 12.0


@pytest.mark.integration
@pytest.mark.deployment
async def test_five_thousand_calls_are_in_flight_at_once_and_all_are_answered(tmp_path):
    async with simulator_process(tmp_path / "ledger.jsonl") as (_, control):
        result = await burst(control, CALLS, SECONDS)
        assert result.right == CALLS
        assert result.peak_in_flight >= CALLS
        # The control: the server counts calls at once, not calls.
        async with aiohttp.ClientSession() as session:
            await session.post(f"{control}/reset")
            assert await rate(control, 0.5, clients=1) > 1
            state = await carrier_state(session, control, "tortoise")
        assert state["peak_in_flight"] == 1
