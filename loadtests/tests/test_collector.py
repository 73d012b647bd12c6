"""What looks at the servers says so when it can't any more."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.counted import Counted
from loadtests import collector
from loadtests.collector import Collector

STACK: Any = SimpleNamespace(names=[], env={}, plan=SimpleNamespace(run_dir=Path("/nowhere")))


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
