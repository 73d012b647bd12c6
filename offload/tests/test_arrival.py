"""The arrival of a request: before the queue for a slot, and where no client can say it."""

import asyncio
import time

from django.http import HttpResponse
from django.test import RequestFactory

from offload.asgi import HoldMiddleware
from offload.keys import CLIENT
from offload.middleware import OffloadMiddleware, arrived_at
from offload.protocol import Client

BUSY = 0.3


async def serve_two_with_one_slot():
    """Send two requests at once to an app that admits one; return (arrived, begun) of each."""
    seen = []

    async def app(scope, receive, send):
        seen.append((scope[CLIENT].arrived_at, time.monotonic()))
        await asyncio.sleep(BUSY)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    hold = HoldMiddleware(app, redis_url="redis://127.0.0.1:9/0", max_concurrency=1)

    async def request():
        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive():
            if not messages:
                await asyncio.sleep(60)
            return messages.pop()

        async def send(message):
            pass

        scope = {"type": "http", "path": "/", "headers": [(b"offload.client", b"1")]}
        await hold(scope, receive, send)

    await asyncio.gather(request(), request())
    return seen


async def test_who_queues_for_a_slot_has_arrived_before():
    (first, _), (second, begun) = await serve_two_with_one_slot()
    assert second - first < BUSY / 2
    # The control: what the view would take for the arrival is the whole queue later.
    assert begun - first >= BUSY


def pass_by(request):
    OffloadMiddleware(lambda _: HttpResponse())(request)


def test_it_is_found_on_the_request_and_else_it_is_now():
    request = RequestFactory().get("/")
    request.scope = {CLIENT: Client(12.5)}  # type: ignore[attr-defined] # as ASGIRequest
    assert arrived_at(request) > 12.5  # not noted: nobody has said so yet
    pass_by(request)
    assert arrived_at(request) == 12.5
    other = RequestFactory().get("/", headers={"Offload-Client": "1"})
    before = time.monotonic()
    pass_by(other)
    assert before <= arrived_at(other) <= time.monotonic()
