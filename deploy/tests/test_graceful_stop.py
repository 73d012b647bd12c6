"""SIGTERM in the middle of work: each process finishes or hands over, within its limit."""

import concurrent.futures
import signal
import time

import pytest

from deploy import strategy as strategies
from deploy.stack import Stack
from deploy.tests.fixtures import absent
from deploy.tests.test_backup import PARCEL, Shop
from deploy.tests.waiting import until

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(300)]

CARRIER_SECONDS = 3
ENV = {
    "SIMULATOR_LATENCY_TORTOISE": str(CARRIER_SECONDS),
    "WEB_WORKERS": "1",
    "WORKER_CONCURRENCY": "20",
}
# Not by the kill that comes after the limit. uvicorn, when it is one process, ends its work and
# then itself by the signal that it was sent.
ENDED = (0, -signal.SIGTERM)
SLOW_START = """
import sys, time
if any("spawn_main" in word for word in sys.orig_argv):
    time.sleep(6)
"""
NOBODY = ("", "")  # the simulator's control asks for no keys


@pytest.fixture(params=["asgi-hold", "nginx-accel", "gunicorn-gthread"])
def stack(request):
    if reason := strategies.why_unavailable(strategies.load(request.param)):
        absent(request.param, reason)
    with Stack(request.param, env=ENV) as stack:
        yield stack


@pytest.fixture
def shop(stack):
    return Shop(stack).use(stack.public_key, stack.secret_key)


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        yield pool


def request_in_flight(shop, stack, pool):
    """Start a synchronous request and return when the carrier is working on it."""
    answer = pool.submit(
        shop.session.post,
        shop.api,
        json={"parcel": {**PARCEL, "request_label": True, "shipment": {"id": 10}}},
        timeout=120,
    )
    until(lambda: in_flight(shop), "a parcel that is being announced")
    return answer


def in_flight(shop):
    found = shop.session.get(f"{shop.api}?parcel_status=1001", timeout=30).json()["parcels"]
    return found[0] if found else None


def ended(stack, name):
    """Stop a process by its own signal; return its exit status and the seconds it took."""
    started = time.monotonic()
    stack.stop(name)
    return stack._children[name].returncode, time.monotonic() - started


def test_the_web_process_answers_who_is_in_flight(stack, shop, pool):
    answer = request_in_flight(shop, stack, pool)
    code, _ = ended(stack, "web")
    assert code in ENDED, stack.log("web")
    # 200: the worker in the process finished; 202: handed over, the announcement goes on.
    assert answer.result().status_code in (200, 202), answer.result().text
    stack.start("web")
    until(lambda: not in_flight(shop), "its end")


@pytest.mark.parametrize(
    ("impatience", "carrier", "status"),
    [({}, "10", 200), ({"OFFLOAD_DRAIN_SECONDS": "0.5"}, "105", 202)],
    ids=str,
)
def test_a_reload_lets_labels_come(impatience, carrier, status, pool, tmp_path):
    # On a busy machine: uvicorn gives a reload up whose first new process isn't ready in 5 s, and
    # kills each process that doesn't speak in that time. Its Procfile allows more.
    (tmp_path / "sitecustomize.py").write_text(SLOW_START)
    # Two: uvicorn has nobody to reload a single one. They go one after the other, and the one that
    # holds may be the second: where the label must not come before its turn, the carrier takes
    # longer than two starts on any machine, and less than a client waits.
    slow = {"WEB_WORKERS": "2", "SIMULATOR_LATENCY_TORTOISE": carrier}
    slow |= {"PYTHONPATH": str(tmp_path), "CARRIER_CALL_DEADLINE": "110", "WAIT_DEFAULT": "118"}
    with Stack("asgi-hold", env=ENV | slow | impatience) as stack:
        shop = Shop(stack).use(stack.public_key, stack.secret_key)
        answer = request_in_flight(shop, stack, pool)
        stack.kill("web", signal.SIGHUP, leader_only=True)
        assert answer.result().status_code == status
        until(lambda: not in_flight(shop), "its end", seconds=120)


def test_the_hub_answers_all_and_ends(stack, shop, pool):
    if "hub" not in stack.names:
        pytest.skip("this strategy has no hub")
    answer = request_in_flight(shop, stack, pool)
    code, seconds = ended(stack, "hub")
    assert code in ENDED, stack.log("hub")
    assert answer.result().status_code == 202
    assert answer.result().headers["Location"]
    assert seconds < 10


def test_the_worker_finishes_its_calls(stack, shop):
    if stack.strategy.name != "asgi-hold":
        pytest.skip("the worker is the same in all: once is enough")
    waiting = shop.create(request_label_async=True, shipment={"id": 10})
    until(lambda: called(shop, stack), "the call at the carrier")
    code, _ = ended(stack, "worker")
    assert code in ENDED, stack.log("worker")
    # Nobody else could have done it: the worker is gone, and a lease outlasts this look.
    assert shop.has_label(waiting)


def called(shop, stack):
    answer = shop.session.get(f"{stack.env['SIMULATOR_URL']}/carriers", timeout=5, auth=NOBODY)
    return any(carrier["in_flight"] for carrier in answer.json()["carriers"])


@pytest.mark.parametrize("name", ["sweeper", "simulator"])
def test_the_others_end_at_once(stack, name):
    if stack.strategy.name != "asgi-hold":
        pytest.skip("the same process in all: once is enough")
    code, seconds = ended(stack, name)
    assert code in ENDED, stack.log(name)
    assert seconds < 10
