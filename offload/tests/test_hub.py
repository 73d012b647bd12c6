import asyncio
import signal
import socket
import time
import uuid

import pytest

from offload.tests import releases
from offload.tests.processes import SECRET, answers_at, eventually, start_hub, until
from offload.tests.releases import LATE, answer

pytestmark = pytest.mark.integration

# The promise for a lost wake-up is two seconds; the rest is for two busy cores.
LOST_WAKE_UP = 2.0 + 1.0


async def get(http, hub, text, method="GET"):
    async with http.request(method, f"{hub.url}/hold/{text}") as response:
        return response.status, response.headers.copy(), await response.read()


async def metrics(http, hub):
    async with http.get(f"{hub.url}/metrics") as response:
        lines = (await response.text()).splitlines()
    return {
        name.removeprefix("offload_"): int(value)
        for name, value in (line.split() for line in lines if not line.startswith("#"))
    }


async def until_held(http, hub, count):
    for _ in range(1000):
        if (await metrics(http, hub))["holds"] == count:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"there were never {count} holds: {await metrics(http, hub)}")


async def held(http, hub, redis_server, hold_id, **options):
    """Return the task of one held client, once it is held."""
    before = (await metrics(http, hub))["holds"]
    text = releases.ticket(hold_id, redis_client=redis_server.client, **options)
    task = asyncio.create_task(get(http, hub, text))
    await until_held(http, hub, before + 1)
    return task


async def test_release_wakes_the_client_at_once(http, hub, redis_server, hold_id):
    task = await held(http, hub, redis_server, hold_id)
    start = time.monotonic()
    releases.release(redis_server.client, hold_id, answer("label", status=201))
    status, headers, body = await task
    assert (status, body) == (201, b'{"final": "label"}')
    assert time.monotonic() - start < 1.0  # milliseconds; the next reading is later than this
    assert headers["X-Outcome"] == "yes"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers.getall("Set-Cookie") == ["a=1; Path=/", "b=2; Path=/"]
    assert "Location" not in headers
    assert "Retry-After" not in headers


async def test_released_before_the_client_arrives(http, hub, redis_server, hold_id):
    releases.release(redis_server.client, hold_id)
    text = releases.ticket(hold_id, redis_client=redis_server.client)
    assert (await get(http, hub, text))[2] == answer().body


async def test_a_ticket_of_a_former_secret_waits(http, redis_server, started, hold_id):
    former = {"OFFLOAD_SECRET": "n" * 40, "OFFLOAD_SECRET_FALLBACKS": SECRET}
    hub = started(start_hub(redis_server.url, environment=former))
    task = await held(http, hub, redis_server, hold_id)
    releases.release(redis_server.client, hold_id)
    assert (await task)[2] == answer().body


@pytest.mark.parametrize("method", ["POST", "PUT", "HEAD"])
async def test_the_front_may_pass_on_any_method(http, hub, redis_server, hold_id, method):
    releases.release(redis_server.client, hold_id)
    text = releases.ticket(hold_id, redis_client=redis_server.client)
    status, headers, _ = await get(http, hub, text, method)
    assert (status, headers["Content-Length"]) == (200, str(len(answer().body)))


async def test_two_clients_of_one_hold_both_get_it(http, hub, redis_server, hold_id):
    tasks = [await held(http, hub, redis_server, hold_id) for _ in range(2)]
    releases.release(redis_server.client, hold_id)
    assert [body for _, _, body in await asyncio.gather(*tasks)] == [answer().body] * 2


async def test_deadline_gives_the_late_answer(http, hub, redis_server, hold_id):
    text = releases.ticket(hold_id, wait=0.3, redis_client=redis_server.client)
    status, headers, body = await get(http, hub, text)
    assert (status, body) == (202, LATE.body)
    assert headers["Location"] == "/outcome"
    assert headers["Retry-After"] == "5"


async def test_deadline_without_the_late_copy_asks_the_app(http, hub, hold_id):
    status, headers, body = await get(http, hub, releases.ticket(hold_id, wait=0.3))
    assert (status, body) == (202, f'{{"late": "{hold_id}"}}'.encode())
    assert headers["Location"] == f"/outcome/{hold_id}"


async def test_nobody_knows_is_a_bare_202(http, redis_server, started, hold_id):
    hub = started(start_hub(redis_server.url, "http://127.0.0.1:9/nobody"))
    status, headers, body = await get(http, hub, releases.ticket(hold_id, wait=0.3))
    assert (status, body) == (202, b"{}")
    assert headers["Retry-After"]


async def test_lost_publish_costs_two_seconds_at_most(http, hub, redis_server, hold_id, outcomes):
    task = await held(http, hub, redis_server, hold_id)
    start = time.monotonic()
    releases.store(redis_server.client, hold_id)
    assert (await task)[2] == answer().body
    assert time.monotonic() - start < LOST_WAKE_UP
    assert releases.questions(outcomes) == []  # without doubt the app is left alone


async def test_lost_key_is_asked_of_the_app(http, hub, redis_server, hold_id, outcomes):
    task = await held(http, hub, redis_server, hold_id)
    releases.commit(outcomes, hold_id, label=7)
    start = time.monotonic()
    releases.wake(redis_server.client, hold_id)
    assert (await task)[2] == b'{"final": {"label": 7}}'
    assert time.monotonic() - start < LOST_WAKE_UP


async def test_flushall_is_noticed(http, hub, redis_server, hold_id, outcomes):
    task = await held(http, hub, redis_server, hold_id)
    until(lambda: redis_server.client.exists("offload:epoch"), what="the epoch")
    await asyncio.sleep(2)  # the hub has seen the epoch: its memory of it is what is tested
    start = time.monotonic()
    releases.commit(outcomes, hold_id, label=7)
    redis_server.client.flushall()
    _status, headers, body = await task
    assert body == b'{"final": {"label": 7}}'
    assert headers["X-Frame-Options"] == "DENY"  # the late copy was in memory
    assert time.monotonic() - start < LOST_WAKE_UP


async def test_redis_killed_and_back(http, hub, redis_server, hold_id):
    task = await held(http, hub, redis_server, hold_id)
    redis_server.kill()
    redis_server.start()
    for _ in range(1000):
        if (await metrics(http, hub))["redis_up"]:
            break
        await asyncio.sleep(0.02)
    start = time.monotonic()
    releases.release(redis_server.client, hold_id)
    assert (await task)[2] == answer().body
    assert time.monotonic() - start < LOST_WAKE_UP


@pytest.mark.parametrize("trouble", ["kill", "freeze"])
async def test_redis_away_at_release(http, hub, redis_server, hold_id, outcomes, trouble):
    task = await held(http, hub, redis_server, hold_id)
    getattr(redis_server, trouble)()
    await asyncio.sleep(3)  # the app has been asked before, and knew nothing
    start = time.monotonic()
    releases.commit(outcomes, hold_id, label=7)
    _status, headers, body = await task
    assert body == b'{"final": {"label": 7}}'
    assert headers["X-Frame-Options"] == "DENY"
    assert time.monotonic() - start < LOST_WAKE_UP + 1


async def test_arrival_while_redis_is_away(http, hub, redis_server, outcomes, hold_id):
    redis_server.kill()
    text = releases.ticket(hold_id, wait=20)
    task = asyncio.create_task(get(http, hub, text))
    await until_held(http, hub, 1)
    assert (await get(http, hub, text))[0] == 410  # used in this process
    releases.commit(outcomes, hold_id, label=7)
    assert (await task)[2] == b'{"final": {"label": 7}}'


async def test_deadline_while_redis_is_frozen(http, hub, redis_server, hold_id):
    tasks = [await held(http, hub, redis_server, uuid.uuid4().hex, wait=4) for _ in range(5)]
    end = time.monotonic() + 4
    redis_server.freeze()
    assert [result[0] for result in await asyncio.gather(*tasks)] == [202] * 5
    assert time.monotonic() < end + 1.5
    redis_server.thaw()


async def test_client_that_hangs_up_is_freed(http, hub, redis_server, hold_id):
    task = await held(http, hub, redis_server, hold_id)
    task.cancel()
    start = time.monotonic()
    await until_held(http, hub, 0)
    assert time.monotonic() - start < 1.0
    assert (await metrics(http, hub))["gone_total"] == 1


async def test_refused_tickets(http, hub, redis_server, hold_id):
    good = releases.ticket(hold_id, wait=0.1, redis_client=redis_server.client)
    other = releases.ticket(hold_id, secret="t" * 40)
    tampered = good[:10] + ("A" if good[10] != "A" else "B") + good[11:]
    expired = releases.ticket(hold_id, wait=-181)
    assert (await get(http, hub, good))[0] == 202
    assert (await get(http, hub, good))[0] == 410
    bad = [other, tampered, expired, "", "x" * 108, good + "A", good[:-1]]
    for text in bad:
        status, _headers, body = await get(http, hub, text)
        assert (status, body) == (404, b""), text


async def test_ticket_used_at_another_process(http, hub, redis_server, started, hold_id):
    other = started(start_hub(redis_server.url))
    text = releases.ticket(hold_id, wait=0.1, redis_client=redis_server.client)
    assert (await get(http, hub, text))[0] == 202
    assert (await get(http, other, text))[0] == 410


async def test_who_comes_to_a_hub_that_stood_still_is_answered_once(
    http, hub, redis_server, hold_id
):
    """The store no longer has the late answer, and the client's front still waits."""
    one, other = (releases.ticket(hold_id, wait=-140) for _ in range(2))
    assert (await get(http, hub, one))[2] == f'{{"late": "{hold_id}"}}'.encode()
    releases.store(redis_server.client, hold_id)
    assert (await get(http, hub, other))[2] == answer().body
    assert [(await get(http, hub, text))[0] for text in (one, other)] == [410, 410]


async def test_late_arrival_still_gets_its_late_answer(http, hub, redis_server, hold_id):
    text = releases.ticket(hold_id, wait=-1, redis_client=redis_server.client)
    assert (await get(http, hub, text))[2] == LATE.body


def test_http_1_0_post_without_its_body(hub, redis_server, hold_id):
    text = releases.ticket(hold_id, redis_client=redis_server.client)
    releases.release(redis_server.client, hold_id)
    with socket.create_connection(("127.0.0.1", hub.port), 5) as client:
        client.sendall(
            f"POST /_offload/hold/{text} HTTP/1.0\r\nHost: \r\nContent-Length: 500\r\n\r\n".encode()
        )
        received = b"".join(iter(lambda: client.recv(65536), b""))
    assert b"200 OK" in received.split(b"\r\n", 1)[0]
    assert received.endswith(answer().body)


async def test_http_1_0_client_without_body_is_freed_when_it_hangs_up(
    http, hub, redis_server, hold_id
):
    text = releases.ticket(hold_id, redis_client=redis_server.client)
    with socket.create_connection(("127.0.0.1", hub.port), 5) as client:
        client.sendall(f"POST /hold/{text} HTTP/1.0\r\nContent-Length: 500\r\n\r\n".encode())
        await until_held(http, hub, 1)
    await until_held(http, hub, 0)


async def test_drain_answers_late_to_all(http, hub, redis_server):
    tasks = [await held(http, hub, redis_server, uuid.uuid4().hex) for _ in range(20)]
    assert hub.end() == 0
    results = await asyncio.gather(*tasks)
    assert [(status, body) for status, _, body in results] == [(202, LATE.body)] * 20


@pytest.mark.parametrize("workers", [1, 2])
async def test_what_is_released_while_the_hub_drains_is_answered(
    http, redis_server, started, workers
):
    """Nobody new is let in meanwhile; the process ends when the last one has its answer."""
    hub = started(start_hub(redis_server.url, drain_seconds=30, workers=workers))
    one, other = uuid.uuid4().hex, uuid.uuid4().hex
    tasks = [await held(http, hub, redis_server, hold_id) for hold_id in (one, other)]
    hub.send(signal.SIGTERM)
    await eventually(lambda: not answers_at(hub.port))
    for hold_id, task in zip((one, other), tasks, strict=True):
        releases.release(redis_server.client, hold_id)
        assert (await task)[2] == answer().body
    assert await asyncio.to_thread(hub.child.wait, 10) == 0


async def test_a_drain_ends_with_late_answers(http, redis_server, started):
    hub = started(start_hub(redis_server.url, drain_seconds=1))
    task = await held(http, hub, redis_server, uuid.uuid4().hex)
    start = time.monotonic()
    hub.send(signal.SIGTERM)
    assert (await task)[2] == LATE.body
    assert 1 <= time.monotonic() - start < 5
    assert await asyncio.to_thread(hub.child.wait, 10) == 0


async def test_limits_answer_late_at_once(http, redis_server, started):
    limits = {"max_holds": 3, "max_holds_per_account": 2}
    hub = started(start_hub(redis_server.url, **limits))
    for _ in range(2):
        await held(http, hub, redis_server, uuid.uuid4().hex, account="one")
    text = releases.ticket(uuid.uuid4().hex, account="one", redis_client=redis_server.client)
    assert (await get(http, hub, text))[2] == LATE.body
    await held(http, hub, redis_server, uuid.uuid4().hex, account="two")
    text = releases.ticket(uuid.uuid4().hex, account="three", redis_client=redis_server.client)
    assert (await get(http, hub, text))[2] == LATE.body
    assert (await metrics(http, hub))["over_limit_total"] == 2


async def test_two_processes_share_one_socket(http, redis_server, started):
    hub = started(start_hub(redis_server.url, workers=2))
    seen = set()
    for _ in range(500):
        async with http.get(f"{hub.url}/healthz", headers={"Connection": "close"}) as response:
            seen.add(await response.text())
        if len(seen) == 2:
            break
    assert len(seen) == 2
    hold_ids = [uuid.uuid4().hex for _ in range(40)]
    texts = [releases.ticket(hold_id, redis_client=redis_server.client) for hold_id in hold_ids]
    tasks = [asyncio.create_task(get(http, hub, text)) for text in texts]
    await until_held(http, hub, 40)  # counted over both
    assert (await metrics(http, hub))["processes"] == 2
    for hold_id in hold_ids[:20]:
        releases.release(redis_server.client, hold_id)
    assert {body for _, _, body in await asyncio.gather(*tasks[:20])} == {answer().body}
    assert hub.end() == 0
    assert {body for _, _, body in await asyncio.gather(*tasks[20:])} == {LATE.body}


async def test_a_thousand_holds_at_once(http, hub, redis_server):
    hold_ids = [uuid.uuid4().hex for _ in range(1000)]
    texts = [releases.ticket(hold_id, redis_client=redis_server.client) for hold_id in hold_ids]
    tasks = [asyncio.create_task(get(http, hub, text)) for text in texts]
    await until_held(http, hub, 1000)
    for hold_id in hold_ids:
        releases.release(redis_server.client, hold_id, answer(hold_id))
    bodies = [body for _, _, body in await asyncio.gather(*tasks)]
    assert bodies == [answer(hold_id).body for hold_id in hold_ids]
    assert (await metrics(http, hub))["holds"] == 0
