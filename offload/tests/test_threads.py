"""WSGI in threads: what the application sees, and what comes back."""

import asyncio
import contextvars
import threading
import time
from wsgiref import validate

import pytest

from offload.threads import InThreads, make_environ

SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/käse/a b",
    "root_path": "",
    "query_string": b"a=1",
    "http_version": "1.1",
    "scheme": "https",
    "server": ("shop.example", 443),
    "client": ("192.0.2.7", 4711),
    "headers": [
        (b"host", b"shop.example"),
        (b"content-type", b"text/plain"),
        (b"cookie", b"a=1"),
        (b"cookie", b"b=2"),
        (b"x-two", b"1"),
        (b"x-two", b"2"),
        (b"x_two", b"forged"),
        (b"transfer-encoding", b"chunked"),
    ],
}


def messages(*parts):
    """Return a `receive` that gives the parts of a body, and then hangs."""
    left = [
        {"type": "http.request", "body": part, "more_body": number < len(parts) - 1}
        for number, part in enumerate(parts)
    ]

    async def receive():
        if left:
            return left.pop(0)
        return await asyncio.Future()

    return receive


async def call(app, *parts, scope=None, receive=None, threads=4):
    sent = []

    async def send(message):
        sent.append(dict(message))

    await InThreads(app, threads=threads)(scope or SCOPE, receive or messages(*parts), send)
    return sent


def app_of(seen, *, headers=(("Content-Length", "2"),), chunks=(b"ok",)):
    def app(environ, start_response):
        seen.append({**environ, "body": environ["wsgi.input"].read()})
        start_response("201 Created", list(headers))
        return chunks

    return app


async def test_the_application_sees_the_request():
    seen: list[dict] = []
    await call(app_of(seen), b"one ", b"two")
    [environ] = seen
    assert environ["body"] == b"one two"
    assert environ["CONTENT_LENGTH"] == "7"  # it came in pieces, without one
    assert "HTTP_TRANSFER_ENCODING" not in environ
    assert environ["PATH_INFO"].encode("latin-1").decode() == "/käse/a b"
    assert environ["HTTP_COOKIE"] == "a=1; b=2"
    assert environ["HTTP_X_TWO"] == "1,2"  # and not the twin with an underscore
    assert environ["REMOTE_ADDR"] == "192.0.2.7"
    assert environ["wsgi.url_scheme"] == "https"


def test_a_root_path_is_the_script_name():
    class Body:
        tell = seek = staticmethod(lambda *_: 0)

    environ = make_environ({**SCOPE, "path": "/shop/x", "root_path": "/shop"}, Body())
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/shop", "/x")


async def test_an_answer_of_known_length_comes_whole():
    sent = await call(app_of([]), b"")
    assert sent == [
        {"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"2")]},
        {"type": "http.response.body", "body": b"ok", "more_body": False},
    ]


async def test_headers_have_no_blanks_around_them():
    """Django begins each cookie with one; h11 refuses such a header, and uvicorn hangs up."""
    headers = [("Content-Length", "2"), ("Set-Cookie", " a=b; Path=/"), ("X-Said", "it \t")]
    started, _ = await call(app_of([], headers=headers), b"")
    assert started["headers"][1:] == [(b"set-cookie", b"a=b; Path=/"), (b"x-said", b"it")]


async def test_an_empty_answer_has_an_end():
    sent = await call(app_of([], headers=(), chunks=()), b"")
    assert sent[-1] == {"type": "http.response.body", "body": b""}


async def test_an_answer_of_unknown_length_flows():
    go_on = threading.Event()
    sent = []

    def app(environ, start_response):
        start_response("200 OK", [])
        yield b"first"
        assert go_on.wait(5)
        yield b"second"

    async def send(message):
        sent.append(message.get("body"))
        if message.get("body") == b"first":
            go_on.set()  # the client has it before the second is made

    await InThreads(app)(SCOPE, messages(b""), send)
    assert [body for body in sent if body] == [b"first", b"second"]


async def test_a_stream_ends_with_its_client():
    closed = threading.Event()

    def endless(environ, start_response):
        start_response("200 OK", [])
        try:
            while True:
                time.sleep(0.001)
                yield b"."
        finally:
            closed.set()

    gone = asyncio.Event()
    body = messages(b"")

    async def receive():
        if not gone.is_set():
            gone.set()
            return await body()
        return {"type": "http.disconnect"}

    async with asyncio.timeout(5):
        await call(endless, receive=receive)
    assert closed.is_set()


async def test_what_a_request_left_in_context_variables_is_not_the_next_ones():
    noted = contextvars.ContextVar("noted", default="nothing")
    found = []

    def app(environ, start_response):
        found.append(noted.get())
        noted.set("something")
        start_response("200 OK", [("Content-Length", "0")])
        return []

    bridge = InThreads(app, threads=1)
    for _ in range(2):
        await bridge(SCOPE, messages(b""), lambda _: asyncio.sleep(0))
    assert found == ["nothing", "nothing"]


async def test_a_client_that_goes_while_it_sends_is_not_served():
    seen: list[dict] = []

    async def receive():
        return {"type": "http.disconnect"}

    assert await call(app_of(seen), receive=receive) == []
    assert not seen


async def test_an_exception_reaches_the_server():
    def app(environ, start_response):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await call(app, b"")


async def test_a_request_that_got_no_thread_is_not_served_later(monkeypatch):
    """Its client has an error, and its body is closed; the pool keeps it in its queue."""
    served = []

    def app(environ, start_response):
        served.append(environ["REQUEST_METHOD"])  # and reads no body, as a DELETE
        start_response("200 OK", [("Content-Length", "0")])
        return []

    def exhausted(thread):
        raise RuntimeError("can't start new thread")

    bridge = InThreads(app, threads=1)
    monkeypatch.setattr(threading.Thread, "start", exhausted)
    with pytest.raises(RuntimeError):
        await bridge({**SCOPE, "method": "DELETE"}, messages(b""), lambda _: asyncio.sleep(0))
    monkeypatch.undo()
    await bridge(SCOPE, messages(b""), lambda _: asyncio.sleep(0))
    assert served == ["POST"]


async def test_other_protocols_are_refused():
    with pytest.raises(ValueError, match="websocket"):
        await call(app_of([]), scope={"type": "websocket"})


async def test_it_speaks_wsgi_by_the_word():
    def app(environ, start_response):
        body = environ["wsgi.input"].read(2)
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2")])
        return [body]

    _, body, *_ = await call(validate.validator(app), b"a", b"b")
    assert body["body"] == b"ab"
