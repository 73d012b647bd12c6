"""What the app is asked when the store is in doubt, by a clock that the test moves."""

import asyncio
import time

from offload.doubts import DOUBT
from offload.protocol import Answer
from offload.tests.virtual import World, run

ANSWER = Answer(200, (), b"done")


async def never():
    await asyncio.Event().wait()


def test_an_app_that_was_down_is_asked_again(hold_id):
    """Store and app are restarted together: the app may need longer than the doubt lasts."""

    async def main():
        world = World()
        waiters = world.waiters()
        waiters.start()
        await asyncio.sleep(1.0)
        client = asyncio.create_task(waiters.wait(hold_id, time.time() + 60, never))
        world.known[hold_id] = ANSWER
        world.app = "raises"
        world.cut()
        await asyncio.sleep(2 * DOUBT)
        world.app = "well"
        await asyncio.sleep(2.0)
        assert client.done()
        assert await client == ANSWER
        assert not waiters.doubts.doubted
        await waiters.stop()

    run(main())
