"""What was asked of a run against what carriers and rows say: nothing lost, nothing twice."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.simulator import Books
from loadtests import measure
from loadtests.generator import Plan, Report
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


def test_streams_to_a_hub_are_left_out_where_there_is_none(bench):
    phases = load("ceiling").phases
    of_hubs = [each for each in phases if {stream.target for stream in each.streams} == {"hub"}]
    assert [bench._phase(phase, run_of()) for phase in of_hubs] == [None] * len(of_hubs) != []


def test_a_batch_is_as_many_labels_and_a_wait_has_one_of_its_own(bench, monkeypatch):
    """All of them are booked and announced."""
    bench._scenario = load("neighbour")
    bench._stack.base_url = "http://127.0.0.1:1"
    bench._stack.env = {"HUB_BIND": ""}
    monkeypatch.setattr(measure, "login", lambda stack, account: "public:secret")
    monkeypatch.setattr(measure, "ask_json", lambda *_, **__: {"parcel": {"id": 1}})
    [waits] = [spec for spec in bench._scenario.phases[1].streams if spec.call == "wait"]
    bench._stream(waits)
    batch = "neighbour's batches"
    sent = [sample("labels"), sample(batch), sample(batch, "http 429"), sample(waits.name)]
    run = Run({}, [("with the neighbour", 0.0, sent)])
    books = bench._settle(Books(0, 0), run)
    assert (books["asked"], books["answered_well"]) == (202, 102)


def test_what_never_ends_is_not_waited_for(bench):
    bench._scenario = replace(TALK, settle=0.0)
    assert bench._settle(Books(0, 0), run_of(sample("labels")))["open"] == 3


def test_who_interrupts_a_run_does_not_wait_for_what_is_under_way(bench):
    run = run_of(sample("labels"))
    run.interrupted = True
    assert bench._settle(Books(0, 0), run)["open"] == 3
    assert Database.looks == 1


def test_an_interrupt_while_it_settles_keeps_what_was_measured(bench, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(measure.time, "sleep", interrupted)
    run = run_of(sample("labels"))
    assert bench._settle(Books(0, 0), run)["open"] == 1  # of a last look, and no further
    assert run.interrupted
    assert Database.looks == 2


def test_a_run_says_how_large_its_web_processes_were(bench, monkeypatch):
    web = ("WEB_WORKERS", "WEB_THREADS", "WEB_GREENLETS", "OFFLOAD_MAX_CONCURRENCY")
    sizes = dict.fromkeys((*web, "HUB_WORKERS"), "3")
    bench._stack.env = {**sizes, "PORT": "1"}
    monkeypatch.setattr(bench, "_phase", lambda phase, run: None)
    collector: Any = SimpleNamespace(start=lambda: None, stop=list)
    assert bench.run(collector).figures["sizes"] == sizes


@pytest.mark.parametrize("interrupted", [False, True])
def test_an_event_that_the_clients_did_not_wait_for_makes_its_run_invalid(
    bench, monkeypatch, interrupted
):
    """Both reloads are planned; the last client ended between them."""
    reload = load("reload")
    done = {"at": 4.0, "kind": "reload", "what": "app", "carrier": "", "said": "done"}
    happenings = SimpleNamespace(begin=lambda start: None, end=lambda: [done])
    sent = Report([sample("labels")]), interrupted
    monkeypatch.setattr(measure, "Happenings", lambda stack, events: happenings)
    monkeypatch.setattr(measure, "login", lambda stack, account: "public:secret")
    monkeypatch.setattr(measure.fleet, "send", lambda plan, **_: (Plan((), 0.0, 60.0), *sent))
    bench._scenario = replace(reload, settle=0.0)
    bench._stack.base_url = "http://127.0.0.1:1"
    bench._stack.env = {"HUB_BIND": ""}
    collector: Any = SimpleNamespace(start=lambda: None, stop=list)
    reasons = bench.run(collector).reasons
    assert reasons == ([] if interrupted else ["reload front never came: the phase was over"])


def test_a_failed_event_and_a_busy_generator_make_a_run_invalid(bench, monkeypatch):
    failed = {"kind": "fault", "what": "hang", "said": "failed: 404"}
    phase = {"start": 0.0, "events": [failed], "generator_busy": 0.95}
    monkeypatch.setattr(bench, "_phase", lambda *_: phase)
    collector: Any = SimpleNamespace(start=lambda: None, stop=list)
    reasons = bench.run(collector).reasons
    assert reasons[0] == "fault hang failed: 404"
    assert any("0.95 of a core" in reason for reason in reasons)
