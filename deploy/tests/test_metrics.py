"""/metrics of a server with several processes: all are counted, the killed ones, too."""

import os
import signal
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
import requests
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.parser import text_string_to_metric_families

from deploy import strategy as strategies
from deploy.metric_files import readable
from deploy.stack import Stack
from deploy.tests.fixtures import absent
from deploy.tests.waiting import until

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(300)]

TOKEN = "a token of the test"
ENV = {"WEB_WORKERS": "2", "WORKER_CONCURRENCY": "20", "METRICS_TOKEN": TOKEN}
ROUTE = "statuses"


@pytest.fixture(scope="module", params=["uvicorn-threads", "gunicorn-gthread", "uwsgi-prefork"])
def stack(request):
    """One strategy of each family of servers."""
    if reason := strategies.why_unavailable(strategies.load(request.param)):
        absent(request.param, reason)
    with Stack(request.param, env=ENV) as stack:
        yield stack


def ask(stack, path, **options):
    """GET on a connection of its own: a kept one would stay with one process."""
    with requests.Session() as session:
        session.trust_env = False
        answer = session.get(f"{stack.base_url}/{path}", timeout=30, **options)
    answer.raise_for_status()
    return answer


def read(stack):
    ask(stack, "api/v2/parcels/statuses", auth=(stack.public_key, stack.secret_key))


def scrape(stack):
    """Return what /metrics says: requests to the route, and workers that are busy."""
    text = ask(stack, "metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    of_route = [one for one in samples if one.labels.get("route") == ROUTE]
    counted = sum(one.value for one in of_route if one.name == "http_requests_total")
    (busy,) = [
        one.value
        for one in samples
        if one.name == "workers_busy" and one.labels["state"] == "serving"
    ]
    return counted, busy


def by_process(stack):
    """Return the requests to the route by the process that answered them."""
    found: Counter[int] = Counter()
    for path in readable((stack.plan.run_dir / "metrics").glob("counter_*.db")):
        for family in MultiProcessCollector.merge([path]):
            for one in family.samples:
                if one.name == "http_requests_total" and one.labels["route"] == ROUTE:
                    found[int(Path(path).stem.rpartition("_")[2])] += int(one.value)
    return found


def spread(stack):
    """Ask until two processes have answered; return how often that took."""
    asked, before, end = 0, by_process(stack), time.monotonic() + 60
    while time.monotonic() < end and len(by_process(stack) - before) < 2:
        read(stack)
        asked += 1
    assert len(by_process(stack) - before) >= 2, "one process answered everything"
    return asked


def test_two_scrapes_differ_by_all_that_was_asked_between_them(stack):
    read(stack)
    before, _ = scrape(stack)
    asked = spread(stack)
    after, busy = scrape(stack)
    assert after - before == asked
    assert sum(by_process(stack).values()) == after
    assert busy == 1  # this scrape's own


def test_a_killed_process_stays_counted_and_is_not_busy(stack):
    spread(stack)
    before, _ = scrape(stack)
    killed = next(pid for pid in by_process(stack) if psutil.pid_exists(pid))
    os.kill(killed, signal.SIGKILL)
    # uvicorn, where it has just asked this process whether it lives, waits a minute for the answer.
    until(lambda: not psutil.pid_exists(killed), "its end", 90)
    until(lambda: serves(stack), "somebody who answers")
    counted, busy = scrape(stack)
    assert counted >= before
    assert busy == 1
    assert not list((stack.plan.run_dir / "metrics").glob(f"gauge_live*_{killed}.db"))
    # Its successor answers, too. uWSGI, told to stop while a worker loads, takes its whole time.
    spread(stack)


def serves(stack):
    try:
        read(stack)
    except requests.RequestException:
        return False
    return True
