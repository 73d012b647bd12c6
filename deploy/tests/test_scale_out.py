"""Two of everything: one of each kind dies under load, and no client is the worse for it."""

import threading
import time
from collections import Counter

import pytest

from carriers.adapters.tortoise import TortoisePost
from deploy.stack import Stack
from deploy.strategy import load, why_unavailable
from deploy.tests.contract.deployment import Deployment
from deploy.tests.contract.shop import Later, order
from deploy.tests.fixtures import absent
from deploy.tests.waiting import until

pytestmark = pytest.mark.deployment

CLIENTS = 120
# Seconds between two clients: 15 a second, for the eight seconds in which the three are killed.
PACE = 1 / 15
# Seconds: a call may take 5, so its lease is 12.5; the sweeper then asks the carrier what it has.
# "Absent" is believed after the settling window: so long takes a label that was not yet asked for.
LONGEST = 12.5 + TortoisePost.settling + 50
ENVIRONMENT = {
    "SIMULATOR_LATENCY_TORTOISE": "1",
    "CARRIER_CALL_DEADLINE": "5",
    "CARRIER_BULKHEAD": "1000",
}


@pytest.fixture(scope="module")
def deployment():
    strategy = load("scale-out")
    if reason := why_unavailable(strategy):
        absent(strategy.name, reason)
    with Stack(strategy, database="postgresql", env=ENVIRONMENT, stop_seconds=5) as stack:
        yield Deployment(stack)


def kill_one_of_each(stack):
    for name in ("web1", "hub1", "worker"):
        time.sleep(2)
        stack.kill(name)


def test_one_node_of_each_kind_is_killed_under_load(deployment):
    shop, stack = deployment.shop, deployment.stack
    killer = threading.Thread(target=kill_one_of_each, args=(stack,))
    killer.start()
    clients = []
    for number in range(CLIENTS):
        one = order(name=f"Receiver {number}", external_reference=f"order {number}")
        clients.append(Later(lambda one=one: patiently(shop, one)))
        time.sleep(PACE)
    answers = [client.result() for client in clients]
    killer.join()
    assert not any(stack.running(name) for name in ("web1", "hub1", "worker"))

    outcomes = Counter(getattr(answer, "status", repr(answer)) for answer in answers)
    print(f"\nscale-out: {dict(outcomes)}")
    assert set(outcomes) <= {200, 202}, outcomes
    acknowledged = {
        answer.json["parcel"]["id"]: answer.json["parcel"]["name"] for answer in answers
    }
    assert len(acknowledged) == CLIENTS
    until(lambda: all(labelled(shop, one) for one in acknowledged), "every label", LONGEST)
    assert {shop.parcel(one)["name"] for one in acknowledged} == set(acknowledged.values())


def patiently(shop, one):
    """Post it, and again at a 502: it was in the killed app's hands, and not acknowledged.

    The reference makes that safe: if the app had stored it after all, this is the same parcel.
    """
    for _ in range(5):
        answer = shop.post(one)
        if answer.status != 502:
            break
        time.sleep(0.5)
    return answer


def labelled(shop, parcel_id):
    """Whether it has been bought; its status may be further on: carriers track what they sold."""
    return bool(shop.parcel(parcel_id)["tracking_number"])


def test_who_comes_afterwards_is_served_by_the_rest(deployment):
    stack = deployment.stack
    answers = [deployment.shop.post(order()) for _ in range(6)]
    assert {answer.json["parcel"]["status"]["id"] for answer in answers} == {1000}
    stack.start("web1", "hub1", "worker")
    answers = [deployment.shop.post(order()) for _ in range(6)]
    assert {answer.json["parcel"]["status"]["id"] for answer in answers} == {1000}
