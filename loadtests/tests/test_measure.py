"""What was asked of a run against what carriers and rows say: nothing lost, nothing twice."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.simulator import Books
from loadtests import measure
from loadtests.measure import Run, _Bench
from loadtests.metrics import Sample
from loadtests.scenario import load

TALK = load("talk")


class Simulator:
    def books(self):
        return Books(booked=13, doubled=1)

    def in_flight(self):
        return 0


class Database:
    """Rows that come to their end at the third look."""

    looks = 0

    def __init__(self, url):
        pass

    def states(self):
        Database.looks += 1
        under_way = [{"announcing": 2, "unknown": 1}, {"unknown": 1}, {}][
            min(Database.looks, 3) - 1
        ]
        return {"announced": 11, "failed": 1} | under_way

    def close(self):
        pass


@pytest.fixture
def bench(monkeypatch):
    Database.looks = 0
    monkeypatch.setattr(measure, "PostgreSQL", Database)
    monkeypatch.setattr(measure, "Simulator", lambda env: Simulator())
    monkeypatch.setattr(measure.time, "sleep", lambda seconds: None)
    stack: Any = SimpleNamespace(env={}, names=[])
    return _Bench(stack, "", TALK, 1, lambda phase, progress: None)


def run_of(*samples):
    return Run({}, [("talk", 0.0, list(samples))])


def sample(stream, outcome="ok"):
    return Sample(stream, 0.0, 0.0, 1.0, 1.0, outcome)


def test_the_books_are_compared_when_nothing_is_under_way(bench):
    run = run_of(*[sample("labels")] * 9, sample("labels", "http 202"), sample("canary"))
    books = bench._settle(Books(booked=2, doubled=0), run)
    assert Database.looks == 3
    assert (books["asked"], books["answered_well"]) == (10, 9)  # a read is no purchase
    assert (books["booked"], books["doubled"]) == (11, 1)  # less what was there before
    assert books["announced"] == 10  # less the contract check's own
    assert (books["open"], books["failed"]) == (0, 1)


def test_what_never_ends_is_not_waited_for(bench):
    bench._scenario = replace(TALK, settle=0.0)
    assert bench._settle(Books(0, 0), run_of(sample("labels")))["open"] == 3


def test_who_interrupts_a_run_does_not_wait_for_what_is_under_way(bench):
    run = run_of(sample("labels"))
    run.interrupted = True
    assert bench._settle(Books(0, 0), run)["open"] == 3
    assert Database.looks == 1


def test_a_run_says_how_large_its_web_processes_were(bench, monkeypatch):
    web = ("WEB_WORKERS", "WEB_THREADS", "WEB_GREENLETS", "OFFLOAD_MAX_CONCURRENCY")
    sizes = dict.fromkeys((*web, "HUB_WORKERS"), "3")
    bench._stack.env = {**sizes, "PORT": "1"}
    monkeypatch.setattr(bench, "_phase", lambda phase, run: None)
    collector: Any = SimpleNamespace(start=lambda: None, stop=list)
    assert bench.run(collector).figures["sizes"] == sizes
