"""For tests of views that hold: the real outcome, at once, without a store or a worker.

    with offload.testing.eager():
        response = self.client.post("/buy")

Functions in `on_commit` run when the view has ended and nothing is released yet, since a TestCase
never commits. A hold that is not released by then gets its late answer, without a wait.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import connections
from django.test.runner import DiscoverRunner

from offload import store
from offload.protocol import Answer

logger = logging.getLogger("offload")


class EagerRunner(DiscoverRunner):
    """TEST_RUNNER for a project whose old tests know nothing of waiting: all of them are eager."""

    def run_suite(self, suite: Any, **options: Any) -> Any:
        with eager():
            return super().run_suite(suite, **options)


@contextmanager
def eager() -> Iterator[Eager]:
    """Have tasks done at once, and holds answered with what was released."""
    before, store.eager = store.eager, Eager()
    try:
        yield store.eager
    finally:
        store.eager = before


class Eager:
    """Stands in for store, queue and front."""

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}

    def publish(self, answers: Mapping[str, Answer]) -> bool:
        """Keep the answers; the first of each hold counts."""
        self._answers = {**answers, **self._answers}
        return True

    def forget(self, hold_ids: Collection[str]) -> bool:
        """Drop the answers of these holds."""
        for hold_id in hold_ids:
            self._answers.pop(hold_id, None)
        return True

    def answer(self, hold_id: str) -> Answer | None:
        """Return what was released, at the latest by what waits for the commit."""
        if hold_id not in self._answers:  # else the hooks are the test's own matter, as always
            _run_commit_hooks()
        return self._answers.get(hold_id)

    def work(self, task: Any, row: Any) -> None:
        """Do the work now; its failure is the client's 500."""
        try:
            task.work(str(row.pk), str(row.hold_id))
        except Exception:
            logger.exception("%s failed", task.path)


def _run_commit_hooks() -> None:
    """Run what waits for the commit of a test's own transactions."""
    for connection in connections.all(initialized_only=True):
        blocks = connection.atomic_blocks
        if blocks and all(getattr(block, "_from_testcase", False) for block in blocks):
            while connection.run_on_commit:
                waits: Any = connection.run_on_commit.pop(0)  # the stubs know two parts of it
                _, hook, robust = waits
                try:
                    hook()
                except Exception:
                    if not robust:
                        raise
                    logger.exception("%r on commit", hook)
