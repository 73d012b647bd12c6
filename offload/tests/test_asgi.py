import asyncio
import gc
import json
import signal
import socket
import time
import uuid
from io import BytesIO
from typing import Any

import pytest

from offload.asgi import HoldMiddleware
from offload.keys import CLIENT
from offload.lifespan import DRAIN_SECONDS
from offload.protocol import Answer, Hold, encode_answer
from offload.tests import releases
from offload.tests.processes import answers_at, eventually, start_project, until

pytestmark = pytest.mark.integration


async def get(http, url, **options):
    async with http.request(options.pop("method", "GET"), url, **options) as response:
        return response.status, response.headers.copy(), await response.read()


async def counts(http, project):
    return json.loads((await get(http, f"{project.url}/counts"))[2])


async def until_held(http, project, count):
    for _ in range(1000):
        if (await counts(http, project))["holds"] == count:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"there were never {count} holds")


async def held(http, project, hold_id, query="", **options):
    before = (await counts(http, project))["holds"]
    url = f"{project.url}/hold/{hold_id}{query}"
    task = asyncio.create_task(get(http, url, **options))
    await until_held(http, project, before + 1)
    return task


async def release(http, project, hold_id, **outcome):
    url = f"{project.url}/release/{hold_id}"
    return json.loads((await get(http, url, method="POST", json=outcome))[2])


async def test_release_answers_as_a_synchronous_view_would(http, asgi, hold_id):
    task = await held(http, asgi, hold_id, method="POST", json={"some": "body"})
    assert await release(http, asgi, hold_id, label=7, status=201) == {"sent": True}
    status, headers, body = await task
    assert (status, body) == (201, b'{"final": {"label": 7, "status": 201}}')
    assert headers["X-Outcome"] == "final"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Content-Type"] == "application/json"
    assert headers["Content-Length"] == str(len(body))
    assert headers.getall("Set-Cookie") == ["seen=late; HttpOnly; Path=/"]
    assert not [name for name in headers if name in ("Location", "Retry-After")]
    assert not [name for name in headers if name.lower().startswith("x-offload")]


async def test_deadline_gives_the_late_answer_whole(http, asgi, hold_id):
    status, headers, body = await get(http, f"{asgi.url}/hold/{hold_id}?wait=0.2")
    assert (status, json.loads(body)) == (202, {"late": hold_id})
    assert headers["Location"] == f"/outcome/{hold_id}"
    assert headers["X-Frame-Options"] == "DENY"
    assert not [name for name in headers if name.lower().startswith("x-offload")]


async def test_no_wait_is_no_hold(http, asgi, hold_id):
    assert (await get(http, f"{asgi.url}/hold/{hold_id}?wait=0"))[0] == 202
    assert (await counts(http, asgi))["held_total"] == 0


async def test_published_status_423(http, redis_server, outcomes, started, hold_id):
    project = started(start_project(redis_server.url, outcomes, DEADLINE_STATUS="423"))
    status, headers, _ = await get(http, f"{project.url}/hold/{hold_id}?wait=0.2")
    assert (status, headers["Retry-After"]) == (423, "5")


async def test_key_lost_is_resolved_in_process(http, asgi, redis_server, outcomes, hold_id):
    task = await held(http, asgi, hold_id)
    releases.commit(outcomes, hold_id, label=7)
    releases.wake(redis_server.client, hold_id)
    assert (await task)[2] == b'{"final": {"label": 7}}'


async def test_release_while_redis_is_down(http, asgi, redis_server, hold_id):
    task = await held(http, asgi, hold_id)
    redis_server.kill()
    start = time.monotonic()
    assert await release(http, asgi, hold_id, label=7) == {"sent": False}
    assert (await task)[2] == b'{"final": {"label": 7}}'
    assert time.monotonic() - start < 4


async def test_client_that_hangs_up_is_freed(http, asgi, hold_id):
    task = await held(http, asgi, hold_id, method="POST", data=b"x" * 1000)
    task.cancel()
    start = time.monotonic()
    await until_held(http, asgi, 0)
    assert time.monotonic() - start < 1.0
    assert (await counts(http, asgi))["gone_total"] == 1


@pytest.mark.parametrize(("front", "arrives"), [("asgi", False), ("accel", True)])
async def test_clients_internal_headers_are_stripped(
    http, redis_server, outcomes, started, front, arrives
):
    # Under "accel" nginx strips them; without it, as here, they arrive: the control.
    project = started(start_project(redis_server.url, outcomes, BACKEND=front))
    names = ["X-Offload-Ticket", "X_Offload_Ticket", "x-accel-redirect", "X-Accel_Redirect"]
    forged = dict.fromkeys(names, "forged")
    _, _, body = await get(http, f"{project.url}/echo", headers={**forged, "X-Other": "mine"})
    seen = json.loads(body)["headers"]
    assert seen["HTTP_X_OTHER"] == "mine"
    assert any("OFFLOAD" in name or "ACCEL" in name for name in seen) is arrives


async def test_a_held_client_keeps_nothing_of_its_body(monkeypatch):
    class Piece(dict[str, Any]):
        """Told from all other dictionaries."""

    async def app(scope, receive, send):
        await receive()
        scope[CLIENT].hold = Hold("f" * 32, "", time.time() + 60)

    async def receive():
        return Piece(type="http.request", body=b"x", more_body=False)

    async def park(*_):
        gc.collect()
        left.extend(each for each in gc.get_objects() if isinstance(each, Piece))

    left: list[Piece] = []
    hold = HoldMiddleware(app, redis_url="redis://127.0.0.1:9/0")
    monkeypatch.setattr(hold._waiters, "start", lambda: None)
    monkeypatch.setattr(hold._waiters, "park", park)
    await hold({"type": "http", "headers": []}, receive, lambda _: asyncio.sleep(0))
    assert left == []


@pytest.mark.parametrize(("held", "left"), [(False, 4), (True, 2)])
async def test_only_an_answer_that_is_held_tells_a_front_nothing(redis_server, held, left):
    """Any other one may have nginx send a file, or not buffer a stream."""
    names = ["x-accel-redirect", "X-Sendfile", "vary"]

    async def app(scope, receive, send):
        if held:
            late = Answer(202, tuple((name, "a") for name in [*names, "X-Offload-Ticket"]), b"")
            scope[CLIENT].hold = Hold("f" * 32, "", time.time())
            scope[CLIENT].late = encode_answer(late, packed=True)
        headers = [*((name.encode(), b"a") for name in names), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def receive():
        return messages.pop() if messages else await asyncio.Future()

    async def send(message):
        sent.append(message)

    messages = [{"type": "http.request", "body": b"", "more_body": False}]
    sent: list[dict[str, Any]] = []
    middleware = HoldMiddleware(app, redis_url=redis_server.url)
    await middleware({"type": "http", "path": "/", "headers": []}, receive, send)
    await middleware._waiters.stop()
    assert len(sent[0]["headers"]) == left
    assert len(sent) == 2


@pytest.mark.parametrize("size", [0, 10, 70_000, 6_000_000])
async def test_bodies_reach_django_whole(http, asgi, size):
    _, _, body = await get(http, f"{asgi.url}/echo", method="POST", data=BytesIO(b"x" * size))
    assert json.loads(body)["length"] == size


async def test_holds_take_no_slot(http, redis_server, outcomes, started):
    project = started(start_project(redis_server.url, outcomes, MAX_CONCURRENCY="2"))
    hold_ids = [uuid.uuid4().hex for _ in range(50)]
    urls = [f"{project.url}/hold/{hold_id}" for hold_id in hold_ids]
    tasks = [asyncio.create_task(get(http, url)) for url in urls]
    await until_held(http, project, 50)
    for hold_id in hold_ids:
        await release(http, project, hold_id)
    assert {status for status, _, _ in await asyncio.gather(*tasks)} == {200}


@pytest.mark.parametrize(("max_concurrency", "expected"), [(3, {3}), (12, set(range(4, 13)))])
async def test_no_more_than_the_admitted_number_are_in_django(
    http, redis_server, outcomes, started, max_concurrency, expected
):
    project = started(
        start_project(redis_server.url, outcomes, MAX_CONCURRENCY=str(max_concurrency))
    )
    url = f"{project.url}/sleep?seconds=0.1"
    await asyncio.gather(*(get(http, url) for _ in range(12)))
    depth, deepest = 0, 0
    for mark in (outcomes / "sleeping").read_text():
        depth += 1 if mark == "+" else -1
        deepest = max(deepest, depth)
    assert deepest in expected


async def test_slow_senders_take_no_slot(http, redis_server, outcomes, started):
    project = started(start_project(redis_server.url, outcomes, MAX_CONCURRENCY="1"))
    head = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nonly this"
    slow = [socket.create_connection(("127.0.0.1", project.port)) for _ in range(10)]
    try:
        for client in slow:
            client.sendall(head)
        assert (await get(http, f"{project.url}/echo"))[0] == 200
    finally:
        for client in slow:
            client.close()


async def test_who_hung_up_in_the_queue_is_not_served(http, redis_server, outcomes, started):
    project = started(start_project(redis_server.url, outcomes, MAX_CONCURRENCY="1"))
    url = f"{project.url}/sleep?seconds=0.5"
    first = asyncio.create_task(get(http, url))
    await asyncio.to_thread(until, (outcomes / "sleeping").exists)
    queued = [asyncio.create_task(get(http, url)) for _ in range(5)]
    await asyncio.sleep(0.2)
    for task in queued:
        task.cancel()
    await first
    await get(http, f"{project.url}/echo")
    assert (outcomes / "sleeping").read_text() == "+-"


async def test_limits_answer_late_at_once(http, redis_server, outcomes, started):
    limits = {"MAX_HOLDS": "3", "MAX_HOLDS_PER_ACCOUNT": "2"}
    project = started(start_project(redis_server.url, outcomes, **limits))
    tasks = [await held(http, project, uuid.uuid4().hex, "?account=one") for _ in range(2)]
    url = f"{project.url}/hold/{uuid.uuid4().hex}?account="
    assert (await get(http, url + "one"))[0] == 202
    tasks.append(await held(http, project, uuid.uuid4().hex, "?account=two"))
    assert (await get(http, url + "three"))[0] == 202
    assert not any(task.done() for task in tasks)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_drain_answers_late_to_all(http, asgi, number):
    tasks = [await held(http, asgi, uuid.uuid4().hex) for _ in range(10)]
    start = time.monotonic()
    asgi.end(number)
    answers = await asyncio.gather(*tasks)
    assert {status for status, _, _ in answers} == {202}
    # Who isn't told sends the next request into a connection that the server closes.
    assert {headers.get("Connection") for _, headers, _ in answers} == {"close"}
    assert time.monotonic() - start < 10  # the holds had 30 s left


async def test_the_door_is_closed_before_the_late_answers_go(http, asgi, hold_id):
    """A client answered earlier may reconnect to the closing socket and be reset."""
    task = await held(http, asgi, hold_id)
    asgi.send(signal.SIGTERM)
    await task
    assert not answers_at(asgi.port)


async def test_with_patience_who_is_released_meanwhile_gets_it(
    http, redis_server, outcomes, started, hold_id
):
    project = started(start_project(redis_server.url, outcomes, DRAIN_SECONDS="60"))
    task = await held(http, project, hold_id)
    project.send(signal.SIGTERM)
    await eventually(lambda: not answers_at(project.port))
    done, _ = await asyncio.wait([task], timeout=2 * DRAIN_SECONDS)
    assert not done
    releases.release(redis_server.client, hold_id)
    assert (await task)[2] == releases.answer().body
    assert project.end() is not None  # at once: nobody is held any more


async def test_a_request_that_is_on_its_way_at_the_signal_is_answered(
    redis_server, outcomes, started
):
    """Its connection was accepted before; the server, idle, would close it in its face."""
    # Longer than any machine is late.
    project = started(start_project(redis_server.url, outcomes, ARRIVING_SECONDS="10"))
    reader, writer = await asyncio.open_connection("127.0.0.1", project.port)
    # A first answer: a connection that the server hasn't accepted yet is reset with its socket.
    writer.write(b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
    project.send(signal.SIGTERM)
    await eventually(lambda: not answers_at(project.port))
    await asyncio.sleep(0.2)  # the signal's tenth of a second, and as much again
    writer.write(b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n")
    second = (await reader.read()).rpartition(b"HTTP/1.1 ")[2]
    assert second.startswith(b"200")
    assert b"connection: close" in second.lower()
    writer.close()
    project.end(signal.SIGKILL)


async def test_a_connection_is_kept_while_nobody_drains(http, asgi, hold_id):
    _, headers, _ = await get(http, f"{asgi.url}/hold/{hold_id}?wait=0.2")
    assert "Connection" not in headers


async def test_keep_alive_and_pipelining(asgi, http, hold_id):
    get_hold = f"GET /hold/{hold_id}?wait=0.3 HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    get_echo = b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", asgi.port), 5) as client:
        client.sendall(get_hold + get_hold + get_echo)
        chunks = await asyncio.to_thread(lambda: list(iter(lambda: client.recv(65536), b"")))
    received = b"".join(chunks)
    assert received.count(b"HTTP/1.1 202") == 2
    assert received.count(b"HTTP/1.1 200") == 1
