"""The second stack ends with the page, at once: nobody waits for its answers."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.live import second_stack
from deploy.live.second_stack import SecondStack
from deploy.readiness import NotReadyError

NAME = "asgi-hold"


class Stack:
    """Opens until it is ended, then until its second process has been ended, too."""

    names = ()

    def __init__(self, name, *, env, run_dir):
        self.env = env
        self.ended: list[bool] = []
        self.opening, self.going_on = threading.Event(), threading.Semaphore(0)

    def open(self):
        self.opening.set()
        for _ in range(2):
            assert self.going_on.acquire(timeout=30)
        raise NotReadyError("web was killed by SIGKILL")

    def close(self, *, graceful=True):
        self.ended.append(graceful)
        self.going_on.release()


@pytest.fixture
def second(monkeypatch, tmp_path):
    monkeypatch.setattr(second_stack, "Stack", Stack)
    environment = {"RUN_DIR": str(tmp_path)}
    strategy = SimpleNamespace(name="uwsgi-prefork")
    first = SimpleNamespace(target=SimpleNamespace(strategy=strategy, environment=environment))
    collector: Any = SimpleNamespace(watches=[first], add=lambda _: None, remove=lambda _: None)
    return SecondStack(collector)


async def begun(second):
    assert second.start(NAME) == ""
    await asyncio.sleep(0)  # its task has its first turn
    return second._stack


async def test_what_is_only_being_started_is_ended_at_once_and_again(second):
    stack = await begun(second)
    await asyncio.to_thread(stack.opening.wait)
    await asyncio.wait_for(second.close(), 20)
    assert stack.ended == [False, False]
    assert "did not start: web was killed" in second.state


async def test_what_runs_is_ended_at_once(second, monkeypatch):
    monkeypatch.setattr(Stack, "open", lambda self: None)
    stack = await begun(second)
    await second._task
    await asyncio.wait_for(second.close(), 20)
    assert stack.ended == [False]


async def test_where_there_is_none_nothing_is_ended(second):
    await asyncio.wait_for(second.close(), 20)
    assert second._stack is None


async def test_by_its_button_it_ends_in_order(second, monkeypatch):
    monkeypatch.setattr(Stack, "open", lambda self: None)
    stack = await begun(second)
    await second._task
    second.stop()
    await second._task
    assert (stack.ended, second.name, second.state) == ([True], "", "")
