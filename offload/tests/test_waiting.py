"""The safety nets one by one, each with its control: the same loss with the net taken away."""

import asyncio
import time
import uuid

import pytest

from offload import doubts
from offload.counting import APP_ASKED, REDIS_UP, Counts
from offload.protocol import NOTHING_KNOWN, Answer, ClientGone, Hold, encode_answer
from offload.tests import releases
from offload.tests.processes import SECRET, eventually
from offload.tickets import read_ticket
from offload.waiting import Waiters

pytestmark = pytest.mark.integration

PATIENCE = 3.0


async def never():
    await asyncio.Event().wait()


@pytest.fixture
async def start(redis_server):
    made = []

    async def start(resolve=None):
        waiters = Waiters(redis_server.url, resolve=resolve, counts=Counts())
        waiters.start()
        made.append(waiters)
        await eventually(lambda: waiters.counts.own[REDIS_UP])
        return waiters

    yield start
    for waiters in made:
        await waiters.stop()


def knows(hold_id, asked=None):
    async def resolve(hold_ids, *, final_only):
        if asked is not None:
            asked.append((hold_ids, final_only))
        return {hold_id: Answer(200, (), b"from the app")}

    return resolve


async def wait(waiters, hold_id, seconds=PATIENCE):
    return await waiters.wait(hold_id, time.time() + seconds, never)


async def after_arrival(waiters, hold_id):
    """Return the waiting task once its first reading is over."""
    task = asyncio.create_task(wait(waiters, hold_id))
    await eventually(lambda: hold_id in waiters.waits)
    await waiters.pipe.ask("PING")
    return task


async def test_wake_up_ends_the_wait(start, redis_server, hold_id, monkeypatch):
    monkeypatch.setattr(doubts, "REREAD", 1000.0)
    waiters = await start()
    task = await after_arrival(waiters, hold_id)
    releases.release(redis_server.client, hold_id)
    assert (await task).body == releases.answer().body


@pytest.mark.parametrize(("reread", "delivered"), [(0.3, True), (1000.0, False)])
async def test_lost_publish(start, redis_server, hold_id, monkeypatch, reread, delivered):
    monkeypatch.setattr(doubts, "REREAD", reread)
    monkeypatch.setattr(doubts.Doubts, "last_read", lambda *_: never_read())
    waiters = await start()
    await asyncio.sleep(0.2)  # the reading out of turn after subscribing is over
    task = await after_arrival(waiters, hold_id)
    releases.store(redis_server.client, hold_id)
    assert (await task is not None) is delivered


async def never_read():
    return None


async def test_last_read_at_the_deadline(start, redis_server, hold_id, monkeypatch):
    monkeypatch.setattr(doubts, "REREAD", 1000.0)
    waiters = await start()
    await asyncio.sleep(0.2)
    task = await after_arrival(waiters, hold_id)
    releases.store(redis_server.client, hold_id)
    assert (await task).body == releases.answer().body


@pytest.mark.parametrize("with_app", [True, False])
async def test_wake_up_without_its_answer(start, redis_server, hold_id, monkeypatch, with_app):
    monkeypatch.setattr(doubts, "REREAD", 1000.0)  # the wake-up itself asks the app
    waiters = await start(knows(hold_id) if with_app else None)
    task = await after_arrival(waiters, hold_id)
    releases.wake(redis_server.client, hold_id)
    ending = await task
    assert (ending == Answer(200, (), b"from the app")) is with_app


async def test_accounts_without_a_client_are_forgotten(start, redis_server, hold_id):
    """Accounts come and go for as long as a process lives."""
    waiters = await start()
    ticket = Hold(hold_id, "one", time.time() + 0.1, "a")
    await waiters.park(ticket, None, never)
    assert not waiters._by_account


async def test_many_lost_answers_are_one_question(start, redis_server, hold_id):
    asked: list[tuple[list[str], bool]] = []
    waiters = await start(knows(hold_id, asked))
    hold_ids = [f"{number:032x}" for number in range(200)]
    tasks = [await after_arrival(waiters, other) for other in hold_ids]
    redis_server.kill()
    for task in tasks:
        assert await task is None
    assert asked
    assert all(len(ids) > 150 for ids, _ in asked[:1])
    assert len(asked) < 10  # each re-reading, not each hold


async def test_unreadable_answer_is_not_an_end(start, redis_server, hold_id):
    waiters = await start()
    task = await after_arrival(waiters, hold_id)
    redis_server.client.set(f"offload:answer:{hold_id}", b"junk")
    releases.wake(redis_server.client, hold_id)
    await asyncio.sleep(0.2)
    assert not task.done()
    releases.release(redis_server.client, hold_id)
    assert (await task).body == releases.answer().body


@pytest.mark.parametrize(
    ("outcome", "stored", "told"), [(True, False, 1), (True, True, 0), (False, False, 0)]
)
async def test_a_store_to_which_nobody_releases_is_told(
    start, redis_server, hold_id, monkeypatch, caplog, outcome, stored, told
):
    monkeypatch.setattr(doubts, "DOUBT", 0.2)
    asked: list[object] = []
    waiters = await start(knows(hold_id if outcome else "another", asked))
    await asyncio.sleep(0.2)  # the doubt of a start is over
    late = encode_answer(Answer(202, (), b""))
    for _ in range(2):  # the second is within a minute
        hold = Hold(hold_id, "", time.time())
        assert (await waiters.park(hold, late, never)).status == 202
    if stored:
        releases.store(redis_server.client, hold_id)
    await eventually(lambda: asked)
    await waiters.pipe.ask("PING")
    assert asked == [([hold_id], True)]
    assert waiters.counts.own[APP_ASKED] == 0  # there is an alarm on it
    assert caplog.text.count("is it the store of those who release") == told


async def test_app_that_fails_ends_in_the_late_answer(start, redis_server, hold_id):
    async def broken(hold_ids, *, final_only):
        raise OSError("the app is down")

    waiters = await start(broken)
    ticket = releases.read(hold_id)
    assert await waiters.doubts.late(ticket, None) == NOTHING_KNOWN
    assert await waiters.doubts.late(ticket, b"junk") == NOTHING_KNOWN


async def test_a_late_answer_that_could_not_be_had_at_first_is_merged(start, redis_server, hold_id):
    waiters = await start()
    text = releases.ticket(hold_id, redis_client=redis_server.client)
    releases.store(redis_server.client, hold_id)
    answer = await waiters.park(read_ticket(SECRET, text, now=time.time()), None, never)
    assert ("X-Frame-Options", "DENY") in answer.headers


async def test_an_unreadable_late_answer_ends_no_released_one(start, redis_server, hold_id):
    waiters = await start()
    releases.store(redis_server.client, hold_id)
    answer = await waiters.park(releases.read(hold_id), b"junk", never)
    assert answer == releases.answer()


async def gone():
    return {"type": "http.disconnect"}


async def test_hang_up_ends_the_hold(start, hold_id):
    waiters = await start()
    assert await wait(waiters, hold_id, 0.5) is None
    with pytest.raises(ClientGone):
        await waiters.wait(hold_id, time.time() + 60, gone)
    assert not waiters.waits


async def test_drained_waiters_take_nobody_in(start, hold_id):
    waiters = await start()
    task = await after_arrival(waiters, hold_id)
    (held,) = waiters.waits[hold_id]
    waiters.drain()
    assert held.timeout.when() < asyncio.get_running_loop().time()  # not at its deadline
    assert await task is None
    assert await wait(waiters, hold_id, 60) is None


async def test_nothing_is_left_of_an_ended_hold(start, redis_server, hold_id):
    waiters = await start()
    task = await after_arrival(waiters, hold_id)
    releases.release(redis_server.client, hold_id)
    await task
    cancelled = await after_arrival(waiters, "f" * 32)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    assert waiters.waits == {}
    assert waiters.doubts.doubted == {}


def test_nobody_waits_less_than_was_asked_for(redis_server, monkeypatch):
    """Under uvloop, which servers use: its timers are of whole milliseconds."""
    uvloop = pytest.importorskip("uvloop")
    monkeypatch.setattr(doubts.Doubts, "last_read", lambda *_: never_read())

    async def left_over(waiters, seconds):
        deadline = time.time() + seconds
        await waiters.wait(uuid.uuid4().hex, deadline, never)
        return deadline - time.time()

    async def all_of_them():
        waiters = Waiters(redis_server.url, resolve=None, counts=Counts())
        waiters.start()
        waits = (left_over(waiters, 0.2 + number * 0.0037) for number in range(200))
        try:
            return await asyncio.gather(*waits)
        finally:
            await waiters.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert max(runner.run(all_of_them())) <= 0
