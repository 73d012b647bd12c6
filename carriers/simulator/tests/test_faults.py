"""Each kind of fault, seen from a client, and what it left in the ledger."""

import asyncio
import json
import time

import aiohttp
import pytest

from carriers.simulator.draw import draw
from carriers.simulator.fault import make
from carriers.simulator.params import Params
from carriers.simulator.tests.clients import PRODUCT, bearer

# Real sockets on loopback: what a reset is can't be seen without one.
pytestmark = pytest.mark.integration

ALL = list(PRODUCT)
# A call that is expected to get no answer is given up after this long.
SHORT = aiohttp.ClientTimeout(total=0.3)


async def put(clients, kind, code="postnl", **params):
    answer = await clients.control("PUT", f"/carriers/{code}/faults/{kind}", params)
    assert answer.status == 200, answer.data
    return answer.data


async def until(condition):
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not come about")


@pytest.mark.parametrize("code", ALL)
async def test_without_faults_every_carrier_sells(clients, code):
    assert (await clients.buy(code, "r1")).status in (200, 201)
    assert clients.booked("r1") == 1


async def test_slow_answers_later(clients):
    await put(clients, "slow", seconds=0.3)
    began = time.monotonic()
    assert (await clients.buy("postnl", "r1")).status == 201
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize(("when", "booked"), [("before", 0), ("after", 1)])
async def test_hang_never_answers(clients, when, booked):
    await put(clients, "hang", when=when)
    clients.session._timeout = SHORT
    with pytest.raises(TimeoutError):
        await clients.buy("postnl", "r1")
    assert clients.booked("r1") == booked
    # The client has gone: so has the call.
    await until(lambda: clients.simulator.carriers["postnl"].in_flight == 0)


async def test_hang_ends_in_a_reset(clients):
    await put(clients, "hang", seconds=0.1)
    with pytest.raises(aiohttp.ClientConnectionError):
        await clients.buy("postnl", "r1")


async def test_refuse_closes_the_port_and_opens_the_same_one_again(clients):
    await clients.buy("postnl", "r1")  # leaves an idle connection, which must not help
    url = clients.url("postnl")
    await put(clients, "refuse")
    with pytest.raises(aiohttp.ClientConnectionError):
        await clients.buy("postnl", "r2")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", clients.simulator.listeners["postnl"].port)
    assert (await clients.buy("tortoise", "r2")).status == 201
    await clients.control("DELETE", "/carriers/postnl/faults/refuse")
    assert clients.url("postnl") == url
    assert (await clients.buy("postnl", "r3")).status == 201


async def test_refuse_closes_a_port_that_is_being_opened(simulator):
    listener = simulator.listeners["postnl"]
    listener.refuse()
    tick = asyncio.create_task(simulator.follow_faults())
    await asyncio.sleep(0)
    simulator.carriers["postnl"].faults["refuse"] = make("refuse", Params({}))
    await asyncio.gather(tick, simulator.follow_faults())
    assert not listener.is_open


async def test_refuse_ends_by_its_own_clock_and_lets_calls_in_flight_end(clients):
    await put(clients, "slow", seconds=0.3)
    call = asyncio.create_task(clients.buy("postnl", "r1"))
    await until(lambda: clients.simulator.carriers["postnl"].in_flight == 1)
    await put(clients, "refuse", **{"for": 0.2})
    listener = clients.simulator.listeners["postnl"]
    assert not listener.is_open
    await until(lambda: listener.is_open)
    assert (await call).status == 201


@pytest.mark.parametrize("code", ALL)
@pytest.mark.parametrize(("when", "booked"), [("before", 0), ("after", 1)])
async def test_error_answers_in_the_carriers_own_form(clients, code, when, booked):
    await put(clients, "error", code, status=503, when=when)
    answer = await clients.buy(code, "r1")
    assert answer.status == 503
    assert clients.booked("r1") == booked
    if code == "lantern":
        assert answer.data.findtext("faultcode") == "soap:Server"
    elif code == "meridian":
        assert answer.data.endswith(b'<error code="INTERNAL">Something went wrong</error>')
    else:
        assert answer.data["code"] == "INTERNAL"


@pytest.mark.parametrize(("kind", "booked"), [("reset_before", 0), ("reset_after", 1)])
async def test_resets_are_resets(clients, kind, booked):
    """A raw socket: an HTTP client would not tell a reset from a hang-up."""
    await put(clients, kind)
    listener = clients.simulator.listeners["postnl"]
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(_raw_purchase("r1"))
    with pytest.raises(ConnectionResetError):
        await reader.read()
    writer.close()
    assert clients.booked("r1") == booked


@pytest.mark.parametrize("code", ALL)
async def test_truncate_promises_more_than_it_sends(clients, code):
    await put(clients, "truncate", code, keep=0.5)
    with pytest.raises(aiohttp.ClientPayloadError):
        await clients.buy(code, "r1")
    assert clients.booked("r1") == 1


async def test_truncate_sends_the_true_status_and_the_share_that_was_asked_for(clients):
    await put(clients, "truncate", keep=0.25)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", clients.simulator.listeners["postnl"].port
    )
    writer.write(_raw_purchase("r1"))
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    promised = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    assert head.startswith(b"HTTP/1.1 201")
    assert len(body) == promised // 4


@pytest.mark.parametrize("code", ALL)
async def test_corrupt_is_200_and_garbage(clients, code):
    await clients.soap_login()
    await put(clients, "corrupt", code)
    answer = await clients.buy(code, "r1")
    assert answer.status == 200
    assert answer.data.startswith(b"\xff\xfe\x00")
    assert clients.booked("r1") == 1


async def test_trickle_sends_byte_by_byte(clients):
    await put(clients, "trickle", interval=0.02)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", clients.simulator.listeners["postnl"].port
    )
    writer.write(_raw_purchase("r1"))
    await reader.readuntil(b"\r\n\r\n")
    pieces = [await reader.read(1000) for _ in range(5)]
    assert [len(piece) for piece in pieces] == [1] * 5
    assert clients.booked("r1") == 1
    writer.close()
    await until(lambda: clients.simulator.carriers["postnl"].in_flight == 0)


async def test_trickle_comes_to_its_end(clients):
    await put(clients, "trickle", "meridian", interval=0.001)
    assert (await clients.buy("meridian", "r1")).status == 201


async def test_late_commit_fails_now_and_books_later(clients):
    await put(clients, "late_commit", seconds=0.3)
    assert (await clients.buy("postnl", "r1")).status == 500
    assert clients.booked("r1") == 0
    assert await clients.find("postnl", "r1") == []
    await until(lambda: clients.booked("r1") == 1)
    assert json.loads(clients.simulator._settings.ledger.read_text())["by"] == "late commit"


async def test_a_late_commit_does_not_wait_for_the_carriers_latency(clients):
    await clients.control("PUT", "/carriers/tortoise/latency", {"fixed": 3600})
    await put(clients, "late_commit", "tortoise", seconds=0)
    assert (await clients.buy("tortoise", "r1")).status == 500
    await until(lambda: clients.booked("r1") == 1)


@pytest.mark.parametrize("code", ALL)
async def test_throttle_says_when_to_come_again(clients, code):
    await put(clients, "throttle", code, retry_after=7)
    answer = await clients.buy(code, "r1")
    assert (answer.status, answer.headers["Retry-After"]) == (429, "7")
    assert clients.booked("r1") == 0


async def test_throttle_may_leave_it_open(clients):
    await put(clients, "throttle", retry_after=None)
    answer = await clients.buy("postnl", "r1")
    assert answer.status == 429
    assert "Retry-After" not in answer.headers


async def test_a_void_can_fail_while_buying_works(clients):
    await put(clients, "error", calls="void")
    sold = (await clients.buy("postnl", "r1")).data
    url = f"{clients.url('postnl')}/shipments/{sold['shipment_id']}"
    assert (await clients.request("DELETE", url, headers=bearer())).status == 500
    assert len(await clients.find("postnl", "r1")) == 1


@pytest.mark.parametrize("code", ["postnl", "lantern"])
async def test_a_share_of_voids_is_the_same_in_each_run(clients, code):
    """Their calls name the label by an id that is drawn anew in each run."""
    await put(clients, "error", code, calls="void", share=0.5, status=503)
    references = [f"r{number}" for number in range(16)]
    struck = []
    for reference in references:
        await clients.buy(code, reference)
        (sold,) = clients.simulator.bookings.live(code, reference)
        if code == "postnl":
            url = f"{clients.url(code)}/shipments/{sold.shipment_id}"
            answer = await clients.request("DELETE", url, headers=bearer())
        else:
            number = f"<tracking_number>{sold.tracking_number}</tracking_number>"
            answer = await clients.soap("CancelShipment", f"<token>{clients.token}</token>{number}")
        struck.append(answer.status == 503)
    assert struck == [draw(1, "error", reference, 1) < 0.5 for reference in references]


@pytest.mark.parametrize(("how", "poison"), [("long", "X" * 300), ("nul", "X\x001")])
async def test_poison_answer_spoils_the_number_alone(clients, how, poison):
    await put(clients, "poison_answer", "postnl", how=how)
    answer = await clients.buy("postnl", "r1")
    assert (answer.status, clients.booked("r1")) == (201, 1)
    assert (answer.data["reference"], answer.data["tracking_number"]) == ("r1", poison)


async def test_flap_of_refuse_closes_and_opens_the_port(clients):
    await put(clients, "flap", period=0.4, of="refuse")
    listener = clients.simulator.listeners["postnl"]
    for _ in range(2):
        await until(lambda: not listener.is_open)
        await until(lambda: listener.is_open)


async def test_flap_passes_parameters_on(clients):
    await put(clients, "flap", period=3600, of="error", **{"with": {"status": 599}})
    assert (await clients.buy("postnl", "r1")).status == 599


async def test_a_lookup_can_fail_while_buying_works(clients):
    await put(clients, "error", calls="lookup")
    assert (await clients.buy("postnl", "r1")).status == 201
    url = f"{clients.url('postnl')}/shipments?reference=r1"
    assert (await clients.request("GET", url, headers=bearer())).status == 500


async def test_two_faults_at_once_both_strike(clients):
    await put(clients, "slow", seconds=60)
    await put(clients, "error")
    began = time.monotonic()
    assert (await clients.buy("postnl", "r1")).status == 500
    assert time.monotonic() - began < 60  # the later one is the outer one
    await clients.control("DELETE", "/carriers/postnl/faults")
    await put(clients, "error")
    await put(clients, "slow", seconds=0.2)
    began = time.monotonic()
    assert (await clients.buy("postnl", "r1")).status == 500
    assert time.monotonic() - began >= 0.2


@pytest.mark.parametrize("outer", ["corrupt", "poison_answer", "truncate", "reset_after"])
async def test_what_never_answers_leaves_outer_faults_nothing_to_change(clients, outer):
    await put(clients, "hang", when="after")
    await put(clients, outer)
    clients.session._timeout = SHORT
    with pytest.raises(TimeoutError):
        await clients.buy("postnl", "r1")


@pytest.mark.parametrize("inner", ["truncate", "trickle"])
async def test_a_broken_answer_stays_broken(clients, inner):
    await put(clients, inner)
    await put(clients, "poison_answer")
    clients.session._timeout = SHORT
    with pytest.raises((TimeoutError, aiohttp.ClientPayloadError)):
        await clients.buy("postnl", "r1")
    assert clients.booked("r1") == 1


async def test_one_that_is_set_again_is_the_outermost(clients):
    await put(clients, "slow", seconds=0)
    await put(clients, "error")
    await put(clients, "slow", seconds=0.2)
    began = time.monotonic()
    assert (await clients.buy("postnl", "r1")).status == 500
    assert time.monotonic() - began >= 0.2


def _raw_purchase(reference):
    body = (
        f'{{"reference": "{reference}", "product": 8, "weight_g": 2000, "receiver": '
        '{"name": "N", "street": "S", "postal_code": "1", "city": "C", "country": "NL"}}'
    ).encode()
    head = (
        "POST /shipments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
