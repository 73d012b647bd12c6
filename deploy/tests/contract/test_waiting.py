"""Waiting ends when it should: with the last parcel, at the deadline, with the client."""

import time

import pytest

from deploy.tests.contract.shop import QUICK, Later, body_of, order
from deploy.tests.contract.wire import Connection
from deploy.tests.waiting import until

pytestmark = pytest.mark.deployment

# Seconds after its deadline at which an answer is a defect. No figure of quality: a poll's interval
# of a second, and the rest for a machine that tests several strategies at once.
TOO_LATE = 3


def test_who_does_not_wait_finds_the_label_by_polling(shop):
    answer = shop.post(order(QUICK, request_label=False, request_label_async=True))
    number = answer.json["parcel"]["id"]
    assert (answer.status, answer.json["parcel"]["status"]["id"]) == (200, 1001)
    until(lambda: shop.parcel(number)["status"]["id"] == 1000, "the label")
    assert shop.get(f"parcels/{number}/documents/label").body.startswith(b"%PDF-")


def test_a_batch_is_held_until_its_last_parcel(shop):
    started = time.monotonic()
    answer = shop.post(order(), order(slower=1.5), order())
    assert time.monotonic() - started >= 1.5
    assert [parcel["status"]["id"] for parcel in answer.json["parcels"]] == [1000] * 3


def test_wait_is_kept(shop):
    started = time.monotonic()
    answer = shop.post(order(slower=8), headers=[("Prefer", "wait=1")])
    assert answer.status == 202
    assert 1 <= time.monotonic() - started < 1 + TOO_LATE


def test_an_outcome_inside_the_wait_is_a_plain_answer(shop):
    answer = shop.post(order(), headers=[("Prefer", "wait=10")])
    assert (answer.status, answer.header("Preference-Applied")) == (200, "")
    assert answer.json["parcel"]["status"]["id"] == 1000


def test_two_who_wait_for_one_parcel_are_both_answered(shop):
    reference = f"twice-{time.time()}"
    first = Later(lambda: shop.post(order(slower=1, external_reference=reference)))
    until(lambda: shop.get(f"parcels?external_reference={reference}").json["parcels"], "the row")
    second = shop.post(order(slower=1, external_reference=reference))
    first = first.result()
    assert first.status == second.status == 200
    assert first.json["parcel"]["id"] == second.json["parcel"]["id"]
    assert second.json["parcel"]["status"]["id"] == 1000


def test_a_client_that_hangs_up_frees_its_hold_and_cancels_nothing(deployment, shop):
    before = shop.total()
    connections = [Connection(shop.port) for _ in range(4)]
    # No label comes meanwhile: a hold that ends was freed by its client.
    with deployment.workers_paused():
        for connection in connections:
            connection.send(shop.bytes("POST", "parcels", body_of(order(slower=3))))
        until(lambda: shop.total() - before >= 4, "their rows")
        deployment.until_held(4)
        for connection in connections:
            connection.abort()
        if deployment.hubs:
            until(lambda: deployment.held_now() == 0, "the holds' end")
    mine = range(before + 1, before + 5)
    until(lambda: all(shop.parcel(one)["status"]["id"] == 1000 for one in mine), "the labels")
