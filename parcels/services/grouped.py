"""Do work in groups that was requested one by one.

At low load each item is done alone and at once. While all threads are busy, new items are
collected, and the next free thread does them together: the higher the load, the less each costs,
and no item waits for a group to fill.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Grouped(Generic[T, R]):
    """Calls `function` with groups of at most `largest`, in at most `at_once` threads.

    It returns a result for each item. An exception goes to each member of the group.
    """

    def __init__(
        self, function: Callable[[Sequence[T]], Sequence[R]], *, at_once: int, largest: int
    ) -> None:
        self._function = function
        self._largest = largest
        self._idle = at_once
        self._threads = ThreadPoolExecutor(at_once)
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    async def __call__(self, item: T) -> R:
        """Have it done; in the event loop that all callers share."""
        result = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        self._begin()
        return await result

    def _begin(self) -> None:
        if not self._idle or not self._waiting:
            return
        self._idle -= 1
        many = min(len(self._waiting), self._largest)
        group = [self._waiting.popleft() for _ in range(many)]
        self._under_way.add(task := asyncio.create_task(self._do(group)))
        task.add_done_callback(self._under_way.discard)

    async def _do(self, group: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        items = [item for item, _ in group]
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._threads, self._function, items)
            for (_, future), result in zip(group, results, strict=True):
                if not future.cancelled():
                    future.set_result(result)
        except Exception as error:
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
        finally:
            self._idle += 1
            self._begin()
