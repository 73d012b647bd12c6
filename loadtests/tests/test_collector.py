"""What looks at the servers says so when it can't any more."""

from types import SimpleNamespace
from typing import Any

import pytest

from deploy.counted import Counted
from deploy.rows import Rows
from loadtests import collector
from loadtests.collector import Collector

ENV = {"PROMETHEUS_MULTIPROC_DIR": "/nowhere"}
STACK: Any = SimpleNamespace(names=[], env=ENV)


class Nothing:
    """A store and a simulator of which nothing can be had."""

    def __init__(self, *_):
        pass

    of = classmethod(lambda cls, env: cls())

    def close(self):
        pass

    def read(self):
        return None

    def __getattr__(self, name):
        def absent():
            raise OSError(name)

        return absent


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(collector, "PostgreSQL", Nothing)
    monkeypatch.setattr(collector, "Simulator", Nothing)
    return lambda **leaders: Collector(STACK, "", leaders)


def looked(found):
    found.start()
    found._end.wait(0.2)
    return found.stop()


def test_what_cannot_be_had_is_missing_and_not_nought(made, monkeypatch):
    monkeypatch.setattr(
        collector, "read_counted", lambda folder, pids: Counted({"serving": len(pids)})
    )
    [row] = looked(made(web1=2**22 + 1, web2=2**22 + 2))
    assert row["busy"] == {"serving": 0}
    assert "held" not in row
    assert "connections" not in row


def test_a_collector_that_broke_is_no_quiet_end(made):
    """Without any `web` there is nobody to count: a mistake of ours, not a server's bad minute."""
    with pytest.raises(RuntimeError, match="the collector broke: KeyError"):
        looked(made(front=2**22 + 1))


class Known(Nothing):
    """A database and a simulator that answer."""

    def read(self):
        return Rows({"tortoise": {"pending": 2, "announcing": 3}}, holds=4, connections=7)

    def lookup_seconds(self):
        return 0.01


def test_a_row_has_each_figure_of_the_servers(made, monkeypatch):
    monkeypatch.setattr(collector, "PostgreSQL", Known)
    monkeypatch.setattr(collector, "Simulator", Known)
    monkeypatch.setattr(collector, "read_counted", lambda folder, pids: Counted({"serving": 1}))
    found = made(web1=2**22 + 1)
    [row] = looked(found)
    assert (row["connections"], row["held"], row["open"]) == (7, 4, 5)
    assert (row["lookup"], row["busy"]) == (0.01, {"serving": 1})
    assert set(row["memory"]) == {"web"}  # the generator's own is no server's
    assert set(row["cpu"]) == {"web", "generator"}


def test_what_is_held_is_the_hubs_own_figure_where_there_is_a_hub(monkeypatch):
    stack: Any = SimpleNamespace(
        names=["hub"], env={**ENV, "HUB_BIND": "x"}, pid=lambda name: 2**22 + 1
    )
    page = b"# TYPE offload_holds gauge\noffload_holds 9.0\n"
    monkeypatch.setattr(collector, "PostgreSQL", Known)
    monkeypatch.setattr(collector, "Simulator", Known)
    monkeypatch.setattr(collector, "ask", lambda url, seconds: (200, page))
    monkeypatch.setattr(collector, "read_counted", lambda folder, pids: Counted())
    found = Collector(stack, "", {"web": 2**22 + 2})
    [row] = looked(found)
    assert row["held"] == 9


@pytest.mark.parametrize(("ours", "others"), [(0.5, 1.5), (2.5, 0.0)])
def test_others_cores_are_what_is_not_ours(ours, others, monkeypatch):
    monkeypatch.setattr(collector.psutil, "cpu_percent", lambda: 50.0)
    monkeypatch.setattr(collector.os, "cpu_count", lambda: 4)
    assert collector.others_cores(ours) == others
