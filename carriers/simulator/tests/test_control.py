import asyncio
import csv
import io
from datetime import UTC, datetime

import pytest

from carriers.simulator.tests.clients import PRODUCT

pytestmark = pytest.mark.integration


async def state(clients, code):
    answer = await clients.control("GET", "/carriers")
    return next(carrier for carrier in answer.data["carriers"] if carrier["code"] == code)


async def test_it_says_that_it_lives(clients):
    answer = await clients.control("GET", "/healthz")
    assert (answer.status, answer.data) == (200, {"status": "ok"})


async def test_carriers_are_shown_as_they_are(clients):
    await clients.buy("tortoise", "r1")
    await clients.control("PUT", "/carriers/tortoise/latency", {"p50": 1, "p95": 2})
    await clients.control("PUT", "/carriers/tortoise", {"lookup_lag": 3})
    assert await state(clients, "tortoise") == {
        "code": "tortoise",
        "name": "Tortoise Post",
        "url": clients.url("tortoise"),
        "latency": {"p50": 1, "p95": 2},
        "lookup_lag": 3,
        "in_flight": 0,
        "oldest": 0,
        "peak_in_flight": 1,
        "calls": 1,
        "buys": 1,
        "booked": 1,
    }


async def test_what_buys_nothing_is_a_call_but_no_buy(clients):
    await clients.buy("tortoise", "r1")
    await clients.find("tortoise", "r1")
    shown = await state(clients, "tortoise")
    assert (shown["calls"], shown["buys"]) == (2, 1)


async def test_calls_in_flight_are_counted(clients):
    await clients.control("PUT", "/carriers/tortoise/faults/hang")
    calls = [asyncio.create_task(clients.buy("tortoise", f"r{n}")) for n in range(3)]
    for _ in range(500):
        shown = await state(clients, "tortoise")
        if shown["in_flight"] == 3:
            assert shown["oldest"] > 0
            break
        await asyncio.sleep(0.01)
    else:
        pytest.fail("three calls are not three in flight")
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_faults_are_set_listed_counted_and_ended(clients):
    path = "/carriers/postnl/faults/error"
    answer = await clients.control("PUT", path, {"status": 502, "after": 0})
    assert answer.data["params"]["status"] == 502
    await clients.buy("postnl", "r1")
    listed = (await clients.control("GET", "/faults")).data
    assert [(f["carrier"], f["kind"], f["state"], f["struck"]) for f in listed["faults"]] == [
        ("postnl", "error", "active", 1)
    ]
    assert listed["faults"][0]["left"] is None
    assert "flap" in listed["kinds"]
    assert (await clients.control("DELETE", path)).status == 204
    assert (await clients.buy("postnl", "r1")).status == 201


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/faults"),
        ("DELETE", "/carriers/postnl/faults"),
        ("DELETE", "/carriers/postnl/faults/refuse"),
        ("POST", "/reset"),
    ],
)
async def test_every_way_to_end_a_fault_opens_the_port_at_once(clients, method, path):
    await clients.control("PUT", "/carriers/postnl/faults/refuse")
    assert not clients.simulator.listeners["postnl"].is_open
    assert (await clients.control(method, path)).status == 204
    assert clients.simulator.listeners["postnl"].is_open
    assert (await clients.control("GET", "/faults")).data["faults"] == []


async def test_reset_puts_latency_and_settings_back(clients):
    before = await state(clients, "postnl")
    await clients.control("PUT", "/carriers/postnl/latency", {"fixed": 9})
    await clients.control("PUT", "/carriers/postnl", {"lookup_lag": 3})
    assert await state(clients, "postnl") != before
    await clients.control("POST", "/reset")
    assert await state(clients, "postnl") == before


async def test_the_latency_is_spent_before_booking(clients):
    await clients.control("PUT", "/carriers/postnl/latency", {"fixed": 3600})
    call = asyncio.create_task(clients.buy("postnl", "r1"))
    for _ in range(500):
        if (await state(clients, "postnl"))["in_flight"]:
            break
        await asyncio.sleep(0.01)
    assert not call.done()
    assert clients.booked("r1") == 0
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "named"),
    [
        ("PUT", "/carriers/hare/faults/error", {}, 404, "hare"),
        ("PUT", "/carriers/postnl/faults/sulk", {}, 404, "sulk"),
        ("PUT", "/carriers/postnl/faults/error", {"share": 2}, 400, "share"),
        ("PUT", "/carriers/postnl/faults/error", [], 400, "object"),
        ("DELETE", "/carriers/postnl/faults/sulk", None, 404, "sulk"),
        ("PUT", "/carriers/postnl/latency", {"p50": 2, "p95": 1}, 400, "latency"),
        ("PUT", "/carriers/postnl/latency", {"p50": 2}, 400, "p95"),
        ("PUT", "/carriers/postnl/latency", {"fixed": -1}, 400, "fixed"),
        ("PUT", "/carriers/postnl/latency", {"fixed": 1, "p50": 1}, 400, "p50"),
        ("PUT", "/carriers/postnl", {"lookup_lag": "x"}, 400, "lookup_lag"),
        ("PUT", "/carriers/postnl", {"lag": 1}, 400, "lag"),
        ("PUT", "/carriers/postnl", {"\ud800": 1}, 400, "unknown: ?"),
        ("GET", "/tracking/events?since=x", None, 400, "since"),
        ("GET", "/tracking/events?limit=0", None, 400, "limit"),
        ("GET", "/tracking/events?since=-1", None, 400, "since"),
        ("GET", "/carriers/hare/invoice.csv", None, 404, "hare"),
        ("POST", "/tracking/nothing/advance", None, 404, "nothing"),
        ("PUT", "/carriers/postnl/fault/hang", {}, 404, "Not Found"),
        ("GET", "/reset", None, 405, "Method Not Allowed"),
    ],
)
async def test_what_is_wrong_is_named(clients, method, path, body, status, named):
    answer = await clients.control(method, path, body)
    assert answer.status == status
    assert named in answer.data["error"]


async def test_the_summary_shows_what_was_bought_twice(clients):
    for _ in range(2):
        await clients.buy("tortoise", "twice")
    sums = (await clients.control("GET", "/ledger/summary")).data
    assert sums["tortoise"]["double_booked_references"] == ["twice"]
    assert sums["tortoise"]["spent"] == "8.50"
    assert sums["postnl"]["booked"] == 0


@pytest.mark.parametrize("code", list(PRODUCT))
async def test_an_invoice_lists_what_was_sold(clients, code):
    await clients.buy(code, 'r,"1"' if code == "postnl" else "r1")
    await clients.buy(code, "r2")
    first, second = clients.simulator.bookings.of_carrier(code)
    await clients.simulator.bookings.void(second)
    answer = await clients.control("GET", f"/carriers/{code}/invoice.csv")
    assert answer.status == 200
    rows = list(csv.DictReader(io.StringIO(answer.data.decode())))
    label_id = first.reference if code in ("colibri", "meridian") else first.shipment_id
    assert rows[0] == {
        "reference": first.reference,
        "label_id": label_id,
        "tracking_number": first.tracking_number,
        "price": first.price,
        "date": datetime.fromtimestamp(first.at, UTC).date().isoformat(),
        "credited": "no",
    }
    assert [row["credited"] for row in rows] == ["no", "yes"]


async def test_a_call_that_returns_the_first_label_begins_no_journey(clients):
    barcode = (await clients.buy("colibri", "r1")).data["results"][0]["barcode"]
    await clients.buy("colibri", "r1")
    await clients.void_items(r1=barcode)
    await clients.buy("colibri", "r1")
    events = (await clients.control("GET", "/tracking/events")).data["events"]
    assert [(e["tracking_number"], e["status"]) for e in events] == [(barcode, 1)]


async def test_tracking_can_be_followed_and_pushed_on(clients):
    number = (await clients.buy("postnl", "r1")).data["tracking_number"]
    answer = await clients.control("POST", f"/tracking/{number}/advance")
    assert answer.status == 200
    events = (await clients.control("GET", "/tracking/events?since=0")).data
    assert [(e["tracking_number"], e["status"]) for e in events["events"]] == [
        (number, 1),
        (number, 22),
    ]
    last = events["last_seq"]
    assert (await clients.control("GET", f"/tracking/events?since={last}")).data["events"] == []
    for _ in range(4):
        assert (await clients.control("POST", f"/tracking/{number}/advance")).status == 200
    assert (await clients.control("POST", f"/tracking/{number}/advance")).status == 409
