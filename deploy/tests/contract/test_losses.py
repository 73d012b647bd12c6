"""Parts are killed and reloaded while clients wait: each of them is answered."""

from collections import Counter

import psutil
import pytest

from deploy.tests.contract.shop import Later, at_once, order
from deploy.tests.waiting import until

pytestmark = pytest.mark.deployment


def outcome(answer):
    """Return what a client got: its label, a late answer, or what it was lost to."""
    if isinstance(answer, Exception):
        return f"lost: {type(answer).__name__}"
    if answer.status == 200 and answer.json["parcel"]["status"]["id"] == 1000:
        return "label"
    return "late" if answer.status == 202 else f"lost: {answer.status}"


def waiting(deployment, count, slower):
    """Let that many clients wait, and return them once they do."""
    shop = deployment.shop
    before = shop.total()
    calls = [lambda: shop.post(order(slower=slower))] * count
    clients = Later(lambda: at_once(*calls))
    until(lambda: newest(shop, before, count), f"{count} rows")
    deployment.until_held(count)
    return clients


def newest(shop, before, count):
    return shop.total() - before >= count


def all_labels(shop):
    """Tell whether some who ask at once, wherever they land, all get their labels."""
    answers = at_once(*[lambda: shop.post(order())] * 6)
    return {outcome(answer) for answer in answers} == {"label"}


def test_redis_is_killed_and_started_again(deployment):
    clients = waiting(deployment, 5, slower=2)
    deployment.stack.kill("redis")
    deployment.stack.start("redis")
    assert Counter(map(outcome, clients.result())) == {"label": 5}


def test_the_hub_is_killed_and_started_again(deployment):
    if not deployment.hubs:
        assert not [name for name in deployment.stack.names if "hub" in name]
        return
    clients = waiting(deployment, 5, slower=2)
    for hub in deployment.hubs:
        deployment.stack.kill(hub)
    outcomes = Counter(map(outcome, clients.result()))
    assert set(outcomes) <= {"label", "late"}, outcomes
    # While there is none: accepted, and answered late at once.
    assert outcome(deployment.shop.post(order())) in ("label", "late")
    deployment.stack.start(*deployment.hubs)
    # nginx leaves a hub alone for two seconds after it refused, where it has several.
    until(lambda: all_labels(deployment.shop), "holds at all new hubs")


def test_the_hub_is_stopped_with_clients_in_its_hands(deployment):
    """Drained: everyone gets the late answer before it ends."""
    if not deployment.hubs:
        assert deployment.held_now() is None
        return
    clients = waiting(deployment, 5, slower=6)
    deployment.stack.stop(*deployment.hubs)
    assert Counter(map(outcome, clients.result())) == {"late": 5}


# The app last: its workers go on loading for some seconds, one after another.
@pytest.mark.parametrize("which", ["front", "app"])
def test_a_reload_loses_nobody(deployment, which, record_property):
    """100 holds, or where workers wait as many as have one."""
    if which not in deployment.strategy.reload:
        pytest.skip(f"{deployment.name} has no reload of the {which}")
    if deployment.holds_clients:
        count = 100
        # However slow the machine takes them in: no call begins before all are held.
        with deployment.workers_paused():
            clients = waiting(deployment, count, slower=8)
    else:
        count = 4
        clients = waiting(deployment, count, slower=4)
    former = app_processes(deployment)
    deployment.stack.reload(which)
    outcomes = Counter(map(outcome, clients.result()))
    record_property(f"{deployment.name} reload {which}", dict(outcomes))
    print(f"\n{deployment.name}: reload of the {which} under {count}: {dict(outcomes)}")
    with deployment.unless_it_cannot(f"reload-{which}"):
        assert not [what for what in outcomes if what.startswith("lost")], outcomes
    until(lambda: outcome(deployment.shop.post(order())) == "label", "a label after the reload")
    if which == "app":  # the next test's clients are not to meet one that ends
        until(lambda: not any(each.is_running() for each in former), "the reload's end", 120)


def app_processes(deployment):
    """Return the workers of the app's servers."""
    masters = [name for name in deployment.stack.names if name.startswith("web")]
    found = [
        psutil.Process(deployment.stack.pid(name)).children(recursive=True) for name in masters
    ]
    # Python's own, which stays for as long as its parent.
    return [each for one in found for each in one if "resource_tracker" not in str(each.cmdline())]
