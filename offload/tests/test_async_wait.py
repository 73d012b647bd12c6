import asyncio
import uuid

import pytest
from asgiref.sync import async_to_sync

import offload
from offload import inline
from offload.tests import releases
from offload.tests.processes import eventually, start_project, until

pytestmark = pytest.mark.integration


@pytest.fixture
def waiting_project(redis_server, outcomes, started):
    return started(start_project(redis_server.url, outcomes, BACKEND="async"))


async def get(http, project, path):
    async with http.get(f"{project.url}/{path}") as response:
        return response.status, await response.read()


async def test_many_coroutines_share_one_subscription(http, waiting_project, redis_server):
    hold_ids = [uuid.uuid4().hex for _ in range(100)]
    paths = [f"wait-async/{hold_id}?seconds=20" for hold_id in hold_ids]
    tasks = [asyncio.create_task(get(http, waiting_project, path)) for path in paths]

    def subscribers():
        return redis_server.client.pubsub_numsub("offload:released")[0][1]

    await eventually(subscribers)
    assert subscribers() == 1
    for hold_id in hold_ids:
        releases.release(redis_server.client, hold_id)
    assert set(await asyncio.gather(*tasks)) == {(200, releases.answer().body)}


async def test_in_vain(http, waiting_project, hold_id):
    status, _ = await get(http, waiting_project, f"wait-async/{hold_id}?seconds=0.2")
    assert status == 202


async def test_the_blocking_way_waits_for_the_same(http, waiting_project, redis_server, hold_id):
    releases.release(redis_server.client, hold_id)
    path = f"wait/{hold_id}?seconds=20"
    assert await get(http, waiting_project, path) == (200, releases.answer().body)


def test_a_loop_that_ends_takes_its_subscription_with_it(redis_server, offload_settings, hold_id):
    """A WSGI server runs each call of an async view in a loop of its own."""
    offload_settings(BACKEND="async", REDIS_URL=redis_server.url)
    async_to_sync(offload.wait_async)(hold_id, 0.01)
    asyncio.run(offload.wait_async(hold_id, 0.01))
    assert len(inline._waiters) == 0
    until(lambda: len(redis_server.client.client_list()) == 1, what="only the test's connection")
