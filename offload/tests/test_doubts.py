"""What the app is asked when the store is in doubt, by a clock that the test moves."""

import asyncio
import contextlib
import time

from offload.doubts import ASK_TIMEOUT, DOUBT, LAST_READ
from offload.protocol import NOTHING_KNOWN, Answer, Hold, encode_answer
from offload.tests.virtual import World, run

ANSWER = Answer(200, (), b"done")
LATE = Answer(202, (), b"late")


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


def said(caplog):
    return [record.getMessage().partition(":")[0].strip() for record in caplog.records]


BEGUN, ENDED = "is in doubt, the app is asked", "answers again"


def test_each_doubt_s_end_is_logged_once(caplog):
    """Only the connection that asks is lost: no new subscription tells of its return."""

    async def main():
        world = World()
        waiters = world.waiters()
        waiters.start()
        for _ in range(2):
            world.loses_reply = True
            await asyncio.sleep(120.0)
        await waiters.stop()

    run(main())
    assert said(caplog) == [BEGUN, ENDED] * 2


def test_a_store_that_is_lost_again_at_once_does_not_answer(caplog):
    """The second loss is of the same doubt: no line says that it begins."""

    async def main():
        world = World()
        waiters = world.waiters()
        waiters.start()
        await asyncio.sleep(1.0)
        world.cut()
        await asyncio.sleep(DOUBT / 2)
        world.store = "refuses"
        world.cut()
        await asyncio.sleep(60.0)
        assert said(caplog) == [BEGUN]
        world.store = "well"
        await asyncio.sleep(2 * DOUBT)
        await waiters.stop()

    run(main())
    assert said(caplog) == [BEGUN, ENDED]


def test_a_late_client_waits_for_one_question_at_most():
    """The app hangs: the questions of those that came before end one after another."""

    async def main():
        world = World()
        world.app = "hangs"
        waiters = world.waiters()
        waiters.start()

        async def late(number):
            hold = Hold(f"{number:032x}", "", time.time() + number, f"{number}")
            assert await waiters.park(hold, None, never) == NOTHING_KNOWN
            return time.time() - hold.deadline

        after = await asyncio.gather(*(late(number) for number in range(1, 4)))
        assert max(after) < ASK_TIMEOUT + 2 * LAST_READ
        await waiters.stop()

    run(main())


def test_nothing_runs_after_the_stop(hold_id):
    """The clients that are still held then get their late answers after it."""

    async def main():
        waiters = World().waiters()
        waiters.start()
        hold = Hold(hold_id, "", time.time() + 60)
        client = asyncio.create_task(waiters.park(hold, encode_answer(LATE), never))
        await asyncio.sleep(1.0)
        await waiters.stop()
        assert await client == LATE
        # One whose request was still in Django.
        assert await waiters.park(hold, encode_answer(LATE), never) == LATE
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def test_the_stop_ends_what_has_lost_its_cancellation():
    """Python 3.11's wait_for drops one that comes with what it waits for; redis-py calls it."""

    async def main():
        waiters = World().waiters()

        async def deaf():
            with contextlib.suppress(asyncio.CancelledError):
                await never()
            await never()

        waiters.run("deaf", deaf)
        await asyncio.sleep(0)
        await waiters.stop()
        assert not waiters.tasks

    run(main())
