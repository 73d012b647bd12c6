"""Combine many callers' small requests into few large ones."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Batcher(Generic[Item, Result]):
    """Collect items while a batch is running, and pass them together as the next one.

    `handle` gets at most `most` items and returns their results in order. An exception goes to each
    item of its batch. It runs in a separate task: a caller that leaves stops no other.
    """

    def __init__(
        self, handle: Callable[[list[Item]], Awaitable[Sequence[Result]]], *, most: int
    ) -> None:
        self._handle = handle
        self._most = most
        self._queue: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def ask(self, item: Item) -> asyncio.Future[Result]:
        """Queue the item and return the future of its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.append((item, future))
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return future

    def fail_queued(self, error: Exception) -> None:
        """Give the error to each caller that is not in a batch yet."""
        while self._queue:
            _fail([self._queue.popleft()[1]], error)

    async def _work(self) -> None:
        while self._queue:
            count = min(len(self._queue), self._most)
            batch = [self._queue.popleft() for _ in range(count)]
            futures = [future for _, future in batch]
            try:
                results = await self._handle([item for item, _ in batch])
                for future, result in zip(futures, results, strict=True):
                    if not future.done():
                        future.set_result(result)
            except Exception as error:
                _fail(futures, error)
        self._task = None


def _fail(futures: Sequence[asyncio.Future[Result]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
            future.exception()  # seen: a caller that left must not make the loop complain
