"""For tests of views that hold: the real outcome, at once, without a store or a worker.

    with offload.testing.eager():
        response = self.client.post("/buy")

Functions in `on_commit` run when the view has ended, since a TestCase never commits. A hold that is
not released by then gets its late answer, without a wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.test.runner import DiscoverRunner

from offload import store
from offload.eager import Eager


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
