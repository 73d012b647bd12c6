"""The replacement for store, queue and front in tests (`offload.testing`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.db import connections

from offload.protocol import Answer

logger = logging.getLogger("offload")


class Eager:
    """Replaces store, queue and front."""

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}

    def publish(self, answers: Mapping[str, Answer]) -> bool:
        """Keep the answers; the first of each hold counts."""
        self._answers = {**answers, **self._answers}
        return True

    def answer(self, hold_id: str) -> Answer | None:
        """Return what was released, at the latest by what waits for the commit."""
        run_commit_hooks()
        return self._answers.get(hold_id)

    def work(self, task: Any, row: Any) -> None:
        """Do the work now; its failure is the client's 500."""
        try:
            task.work(str(row.pk), str(row.hold_id))
        except Exception:
            logger.exception("%s failed", task.path)


def run_commit_hooks() -> None:
    """Run what waits for the commit of a test's own transactions."""
    for connection in connections.all(initialized_only=True):
        blocks = connection.atomic_blocks
        if blocks and all(getattr(block, "_from_testcase", False) for block in blocks):
            while connection.run_on_commit:
                _, hook, *_ = connection.run_on_commit.pop(0)
                hook()
