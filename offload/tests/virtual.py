"""A store, an app and a clock that a test moves: minutes of waiting in milliseconds, no socket."""

import asyncio
import selectors
from collections import Counter
from functools import partial
from unittest import mock

from offload import waiting
from offload.counting import Counts
from offload.keys import ANSWER_KEY
from offload.protocol import Answer, encode_answer
from offload.redis_clients import SOCKET_TIMEOUT, Pipe


class Clock(selectors.SelectSelector):
    """For an event loop: where it would sleep, the clock is moved."""

    now = 1000.0

    def time(self):
        return self.now

    def select(self, timeout=None):
        assert timeout is not None, "nothing would ever happen again"
        self.now += timeout
        return []


def run(main):
    """Run the coroutine by a clock of its own."""
    clock = Clock()
    with (
        mock.patch("time.time", clock.time),
        mock.patch("time.monotonic", clock.time),
        asyncio.Runner(loop_factory=partial(asyncio.SelectorEventLoop, clock)) as runner,
    ):
        return runner.run(main)


class World:
    """A store for Waiters, and the app: `known` is committed there, `stored` is in the store."""

    trouble = (OSError,)

    def __init__(self, delay=lambda: 0.0):
        self.delay = delay
        self.store = self.app = "well"
        self.stored: dict[str, bytes] = {}
        self.known: dict[str, Answer] = {}
        self.subscriptions: list[asyncio.Queue[str]] = []
        self.loses_reply = False
        self.calls: Counter[tuple[str, int]] = Counter()

    def waiters(self, **limits):
        def at(_url, on_trouble):
            self.pipe = Pipe(self._run, self.trouble, on_trouble)
            return self

        with mock.patch.object(waiting, "_store_at", at):
            return waiting.Waiters("", resolve=self.resolve, counts=Counts(), **limits)

    def _count(self, name):
        self.calls[name, int(asyncio.get_running_loop().time())] += 1

    # The store -------------------------------------------------------------------------------

    async def _reach_store(self):
        await asyncio.sleep(self.delay())
        if self.store == "refuses":
            raise ConnectionRefusedError
        if self.store == "silent":
            await asyncio.sleep(SOCKET_TIMEOUT)
            raise TimeoutError

    async def _run(self, commands):
        self._count("store")
        loses_reply, self.loses_reply = self.loses_reply, False
        await self._reach_store()
        replies = [self._reply(*each) for each in commands]
        await asyncio.sleep(self.delay())
        if loses_reply:
            raise ConnectionResetError
        return replies

    def _reply(self, name, *rest):
        if name == "MGET":
            return [self.stored.get(key) for key in rest]
        if name == "GET":
            return self.stored.get(rest[0])
        new = rest[0] not in self.stored
        self.stored.setdefault(rest[0], rest[1].encode())
        return new

    async def wake_ups(self, idle):
        self._count("store")
        await self._reach_store()
        heard: asyncio.Queue[str] = asyncio.Queue()
        self.subscriptions.append(heard)
        try:
            yield None
            while True:
                try:
                    async with asyncio.timeout(idle):  # wait_for may lose a cancellation (3.11)
                        hold_id = await heard.get()
                except TimeoutError:
                    if self.store == "silent":
                        raise
                    continue
                if not hold_id:
                    raise ConnectionResetError
                yield hold_id
        finally:
            self.subscriptions.remove(heard)

    async def aclose(self):
        pass

    def cut(self):
        for heard in self.subscriptions:
            heard.put_nowait("")

    async def put(self, hold_id, answer):
        """Store a released answer as `release` does, without its wake-up; raises OSError."""
        await self._reach_store()
        self.stored.setdefault(ANSWER_KEY + hold_id, encode_answer(answer))

    def wake(self, hold_id):
        for heard in self.subscriptions:
            heard.put_nowait(hold_id)

    # The app ---------------------------------------------------------------------------------

    async def resolve(self, hold_ids, *, final_only):
        self._count("app")
        if self.app == "raises":
            raise OSError("the app is down")
        if self.app == "hangs":
            await asyncio.Event().wait()
        await asyncio.sleep(self.delay())
        return {each: self.known[each] for each in hold_ids if each in self.known}
