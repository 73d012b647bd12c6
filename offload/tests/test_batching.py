import asyncio
from types import SimpleNamespace

import pytest

from offload.batching import Batcher
from offload.redis_clients import RedisStore


def doubling(batches, *, fail=()):
    async def handle(items):
        batches.append(items)
        await asyncio.sleep(0)
        if set(items) & set(fail):
            raise RuntimeError("no")
        return [2 * item for item in items]

    return handle


async def test_questions_of_one_moment_are_one_batch():
    batches: list[list[int]] = []
    batcher = Batcher(doubling(batches), most=100)
    assert await asyncio.gather(*(batcher.ask(n) for n in range(50))) == [2 * n for n in range(50)]
    assert len(batches) == 1


async def test_no_batch_is_larger_than_allowed():
    batches: list[list[int]] = []
    batcher = Batcher(doubling(batches), most=3)
    await asyncio.gather(*(batcher.ask(n) for n in range(8)))
    assert [len(batch) for batch in batches] == [3, 3, 2]


async def test_an_error_reaches_its_batch_and_no_other():
    batcher = Batcher(doubling([], fail=[1]), most=2)
    futures = [batcher.ask(n) for n in range(4)]
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(result) for result in results] == [RuntimeError, RuntimeError, int, int]
    assert await batcher.ask(5) == 10  # and it goes on


async def test_one_who_leaves_stops_nobody():
    batcher = Batcher(doubling([]), most=10)
    first, second = batcher.ask(1), batcher.ask(2)
    first.cancel()
    assert await second == 4


async def test_too_few_results_are_an_error():
    async def handle(items):
        return items[1:]

    batcher = Batcher(handle, most=10)
    with pytest.raises(ValueError, match="zip"):
        await asyncio.gather(batcher.ask(1), batcher.ask(2))


async def test_the_queue_can_be_failed():
    async def handle(items):
        batcher.fail_queued(OSError("down"))
        raise OSError("down")

    batcher = Batcher(handle, most=1)
    results = await asyncio.gather(*(batcher.ask(n) for n in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [OSError] * 3


async def test_many_keys_are_read_in_several_replies_and_in_their_order():
    """Each reply has a time-out of its own."""
    asked: list[tuple[str, ...]] = []

    async def execute():
        return [list(keys) for keys in asked]

    def execute_command(_name, *keys):
        asked.append(keys)

    pipeline = SimpleNamespace(execute_command=execute_command, execute=execute)
    store = RedisStore.__new__(RedisStore)
    vars(store)["_client"] = SimpleNamespace(pipeline=lambda **_: pipeline)
    keys = [str(number) for number in range(70)]
    assert await store._run([("GET", key) for key in keys]) == keys
    assert [len(some) for some in asked] == [32, 32, 6]
