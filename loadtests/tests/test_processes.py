"""Processor time and memory of real processes."""

import os
import time

import pytest

from loadtests.processes import Processes


def busy(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_spent_counts_from_its_own_last_call():
    mine = Processes({"me": os.getpid()})
    assert mine.spent() == {"me": 0.0}  # the first look only begins
    busy(0.2)
    assert mine.spent()["me"] == pytest.approx(0.2, abs=0.1)
    assert mine.spent()["me"] < 0.1


def test_processor_is_spent_per_second():
    mine = Processes({"me": os.getpid()})
    mine.processor()
    began = time.monotonic()
    busy(0.2)
    share = 0.2 / (time.monotonic() - began)
    assert mine.processor()["me"] == pytest.approx(share, rel=0.5)


def test_several_of_the_same_are_one_name():
    """A balancer's two nodes are `web1` and `web2`; who asks for `web` means both."""
    mine = Processes({"web1": os.getpid(), "web2": os.getpid(), "front": 2**22 + 1})
    assert mine.counts()["web"] == 2 * len(mine.tree("web")[::2])
    assert set(mine.memory()) == {"web", "front"}


def test_who_has_ended_spends_and_has_nothing():
    gone = Processes({"gone": 2**22 + 1})  # above every pid
    assert gone.spent() == {"gone": 0}
    assert gone.memory() == {"gone": 0}
    assert Processes({"me": os.getpid()}).memory()["me"] > 1
