"""A thousand clients wait at once, and each gets its own label."""

import asyncio
import json
import resource
import time

import pytest

from deploy.tests.contract.shop import body_of, order

pytestmark = pytest.mark.deployment

HOLDS = 1000
# Seconds: a thousand accepted, announced and answered take 15 on two idle cores; these are shared.
PATIENCE = 180


async def one(shop, number):
    """Return what is wrong with the answer, and the seconds until it came; None if all is right."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", shop.port)
    try:
        body = body_of(order(slower=2, name=f"Receiver {number}"))
        headers = [("Connection", "close")]
        writer.write(shop.bytes("POST", "parcels", body, headers=headers))
        head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        if not rest.startswith(b"{"):
            return head + rest, time.monotonic() - began
        parcel = json.loads(rest)["parcel"]
        own = parcel["name"] == f"Receiver {number}"
        answer = head.split()[1], own, parcel["status"]["id"]
        right = answer == (b"200", True, 1000)
        return None if right else (answer, time.monotonic() - began)
    finally:
        writer.close()


async def all_at_once(shop):
    async with asyncio.timeout(PATIENCE):
        return await asyncio.gather(*(one(shop, number) for number in range(HOLDS)))


@pytest.mark.timeout(900)  # with the wait for the other processes' thousands
def test_a_thousand_holds(deployment, shop, one_at_a_time):
    """Those whose workers wait have fewer slots by their nature: the comparison's very point."""
    if not deployment.holds_clients:
        assert deployment.strategy.backend in ("inline", "async")
        return
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft > 2 * HOLDS, f"ulimit -n is {soft}"
    answers = asyncio.run(all_at_once(shop))
    assert [wrong for wrong in answers if wrong] == []
