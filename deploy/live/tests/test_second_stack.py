"""The second stack: what it shares with the first, and that it ends with the page, at once."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from deploy.live import second_stack
from deploy.live.second_stack import SecondStack
from deploy.readiness import NotReadyError

NAME = "asgi-hold"
HANG = {"carrier": "colibri", "kind": "hang", "state": "active", "left": 20.0}


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
    first.simulator = mock.Mock(**{"faults.return_value": []})
    collector: Any = mock.Mock(watches=[first])
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


async def test_an_outage_that_goes_on_strikes_who_joins(second, monkeypatch):
    monkeypatch.setattr(Stack, "open", lambda self: None)
    first, joins = second._collector.watches[0], second._collector.add.return_value
    over = {**HANG, "state": "over", "left": 0.0}
    asked = {"after": 5.0, "for": 30, "calls": "all"}
    first.simulator.faults.return_value = [{**HANG, "params": asked}, {**over, "params": asked}]
    await begun(second)
    await second._task
    begins = mock.call("colibri", "hang", {"after": 0, "for": 20.0, "calls": "all"})
    assert joins.simulator.fault.call_args_list == [begins]
    assert first.simulator.fault.call_args_list == [begins]  # so that both flap in step
    assert second.state == ""


async def test_a_simulator_that_has_gone_is_said(second, monkeypatch):
    monkeypatch.setattr(Stack, "open", lambda self: None)
    second._collector.watches[0].simulator.faults.side_effect = ConnectionError("gone")
    await begun(second)
    await second._task
    assert second.state == "asgi-hold may be without the first one's outage: gone"


async def test_carriers_and_waits_are_the_first_one_s(second):
    same = {"CARRIER_BULKHEAD_COLIBRI": "9", "SIMULATOR_LATENCY_COLIBRI": "1", "WAIT_DEFAULT": "5"}
    alone = {"CARRIER_URL_COLIBRI": "http://a", "SIMULATOR_URL": "http://b",
             "SIMULATOR_LEDGER": "/ledger", "WEB_WORKERS": "5"}  # fmt: skip
    second._collector.watches[0].target.environment.update(same | alone)
    stack = await begun(second)
    assert stack.env == same
    await second.close()
