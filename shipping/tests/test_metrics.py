"""/metrics: for whom it is, over several processes, after one was killed."""

import os
import subprocess
import sys
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings as project
from django.http import HttpResponse
from django.test import Client

import offload
from carriers import registry
from carriers.guards import CarrierGuards
from carriers.redis_guard import RedisGuard
from deploy.metric_files import forget_dead_processes
from offload.redis_clients import sync_client
from parcels import metrics
from parcels.services import carrier_guards
from parcels.tests.factories import AnnouncementFactory
from shipping import metrics as shipping_metrics
from shipping.metrics import STORED
from shipping.middleware import RequestMiddleware

CHILD = """
import os, sys, signal
sys.path.insert(0, {root!r})
from parcels import metrics
metrics.REQUESTS.labels("GET", "child", 200).inc({count})
metrics.WORKERS.labels("serving").inc({count})
if {killed}:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    STORED._read_at = float("-inf")
    guard = RedisGuard(sync_client("redis://127.0.0.1:1/0"), "guards")
    # It knows of no breaker: all are closed.
    monkeypatch.setattr(guard, "ask", lambda _: [None] * len(registry.CARRIERS))
    monkeypatch.setattr("shipping.metrics.guards_of", partial(CarrierGuards, guard))


@pytest.fixture
def open_(settings: Any) -> None:
    settings.METRICS_TOKEN, settings.DEMO = "", True


@pytest.mark.django_db
def test_the_queues_are_shown(client: Client, open_: None) -> None:
    AnnouncementFactory.create()
    AnnouncementFactory.create()
    text = client.get("/metrics").content.decode()
    line = 'announcement_queue_length{carrier="postnl",state="pending"} 2.0'
    assert line in text
    assert "announcement_queue_age_seconds" in text
    assert "holds_open 0.0" in text
    assert 'carrier_breaker_state{carrier="postnl"} 0.0' in text


def refuse(_: object) -> None:
    raise redis.ConnectionError("refused")


@pytest.mark.django_db
def test_breakers_that_only_workers_know_are_not_said_to_be_closed(
    client: Client, open_: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = RedisGuard(sync_client("redis://127.0.0.1:1/0"), "guards")
    every = {code: CarrierGuards(guard, code) for code in registry.CARRIERS}
    monkeypatch.setattr(next(iter(every.values())), "ask_modes", refuse)
    monkeypatch.setattr("shipping.metrics.guards_of", every.get)
    for _ in range(2):  # the second isn't even asked
        STORED._read_at = float("-inf")
        assert "carrier_breaker_state{" not in client.get("/metrics").content.decode()


@pytest.mark.integration
@pytest.mark.django_db
def test_the_breakers_are_those_of_this_deployment(
    client: Client,
    open_: None,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    redis_server: Any,
) -> None:
    settings.CARRIER_GUARD_PREFIX = f"{uuid.uuid4().hex}:"
    monkeypatch.setattr(carrier_guards, "_client", lambda: sync_client(redis_server.url))
    monkeypatch.setattr("shipping.metrics.guards_of", carrier_guards.guards_of)
    carrier_guards.forget()
    try:
        carrier_guards.guards_of("postnl").leave(outcomes=[(True, 0.0, "")] * 10)
        text = client.get("/metrics").content.decode()
    finally:
        carrier_guards.forget()
    assert 'carrier_breaker_state{carrier="postnl"} 2.0' in text


def test_a_held_request_is_not_counted_as_its_late_answer(rf: Any) -> None:
    def view(_: Any) -> HttpResponse:
        return offload.hold(str(uuid.uuid4()), late=HttpResponse(status=202))

    held = metrics.REQUESTS.labels("POST", "unmatched", "held")._value.get
    late = metrics.REQUESTS.labels("POST", "unmatched", 202)._value.get
    before = held(), late()
    RequestMiddleware(view)(rf.post("/"))
    assert (held(), late()) == (before[0] + 1, before[1])


@pytest.mark.django_db
def test_a_process_that_makes_its_file_this_moment_breaks_nothing(
    client: Client, open_: None
) -> None:
    making = project.METRICS_DIR / "counter_1.db"
    making.touch()  # as prometheus_client makes it: opened, and enlarged a moment later
    try:
        assert client.get("/metrics").status_code == 200
    finally:
        making.unlink()


@pytest.mark.django_db
def test_the_database_is_asked_once_a_second(
    client: Client,
    open_: None,
    django_assert_num_queries: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert shipping_metrics.KEEP == 1.0
    monkeypatch.setattr(shipping_metrics, "KEEP", 60.0)  # a busy machine takes longer than a second
    client.get("/metrics")
    with django_assert_num_queries(0):
        client.get("/metrics")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("token", "demo", "given", "status"),
    [
        ("t0ken", False, "Bearer t0ken", 200),
        ("t0ken", False, "Bearer other", 404),
        ("t0ken", False, "", 404),
        ("t0ken", True, "", 404),
        ("", False, "", 404),
        ("", False, "Bearer ", 404),
        ("", True, "", 200),
    ],
)
def test_who_may_see_it(
    client: Client, settings: Any, token: str, demo: bool, given: str, status: int
) -> None:
    settings.METRICS_TOKEN, settings.DEMO, settings.DEBUG = token, demo, False
    assert client.get("/metrics", headers={"Authorization": given}).status_code == status


@pytest.mark.django_db
def test_the_demo_shows_it_to_its_own_machine_only(client: Client, open_: None) -> None:
    assert client.get("/metrics", REMOTE_ADDR="192.0.2.1").status_code == 404


@pytest.mark.django_db
def test_processes_are_added_up_and_the_killed_are_not_counted_as_busy(
    client: Client, open_: None
) -> None:
    for count, killed in ((30, False), (50, True)):
        code = CHILD.format(root=str(project.BASE_DIR), count=count, killed=killed)
        subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=not killed)
    metrics.REQUESTS.labels("GET", "child", 200).inc()
    text = client.get("/metrics").content.decode()
    counted = 'http_requests_total{method="GET",route="child",status="200"}'
    (line,) = [line for line in text.splitlines() if line.startswith(counted)]
    assert float(line.rsplit(" ", 1)[1]) >= 81
    (busy,) = [x for x in text.splitlines() if x.startswith('workers_busy{state="serving"}')]
    # This very request, and those of the tests beside it: they count in the same folder.
    assert 1 <= float(busy.rsplit(" ", 1)[1]) < 30


def test_what_has_no_address_prints_what_it_has_counted(tmp_path: Path) -> None:
    counts = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for killed in (False, True):
        code = CHILD.format(root=str(project.BASE_DIR), count=4, killed=killed)
        subprocess.run([sys.executable, "-c", code], env=counts, check=not killed)
    files = set(tmp_path.iterdir())

    def printed(*labels: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "shipping.counted", *labels]
        return subprocess.run(
            command, cwd=project.BASE_DIR, env=counts, check=False, capture_output=True, text=True
        )

    lines = printed("container=sweeper_1", "host=a=b").stdout.splitlines()
    labels = 'container="sweeper_1",host="a=b",method="GET",route="child",status="200"'
    assert f"http_requests_total{{{labels}}} 8.0" in lines
    assert not [line for line in lines if line.startswith("workers_busy{")]
    assert set(tmp_path.iterdir()) < files  # none of its own: cron runs it each minute
    refused = printed("container")
    assert (refused.returncode, refused.stderr) == (1, "'container' is no label: name=value\n")


def test_files_of_the_living_stay(tmp_path: Path) -> None:
    mine, dead = (tmp_path / f"gauge_livesum_{pid}.db" for pid in (os.getpid(), 2**22 + 1))
    counter = tmp_path / f"counter_{2**22 + 1}.db"
    for path in (mine, dead, counter):
        path.touch()
    forget_dead_processes(tmp_path)
    assert (mine.exists(), dead.exists(), counter.exists()) == (True, False, True)
