"""The page's server, without a stack: what it answers to whom."""

import asyncio
import json
import time
from dataclasses import dataclass

import pytest

from deploy.live.access import Access
from deploy.live.app import Live
from deploy.live.load import HIGHEST_RATE
from shipping.live import ticket

OURS = {"x-live": "1"}
CHANGES = [
    ("POST", "/api/carriers/colibri/outage"),
    ("DELETE", "/api/carriers/colibri/outage"),
    ("POST", "/api/load"),
    ("POST", "/api/beside"),
]


@dataclass
class Answer:
    status: int
    headers: dict
    content: bytes

    @property
    def json(self):
        return json.loads(self.content)


class Client:
    """Calls the application itself: no socket, no server."""

    def __init__(self, address="127.0.0.1", access=None):
        self.address = address
        self.live = Live(access or Access(demo=True), [])
        self.app = self.live.app()

    async def ask(self, method, path, body=b"", headers=()):
        given = {"host": "127.0.0.1:8001", **dict(headers)}
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "client": (self.address, 1),
            "headers": [(k.encode(), v.encode()) for k, v in given.items()],
        }
        sent, coming = [], [{"type": "http.request", "body": body}]

        async def receive():
            return coming.pop() if coming else await asyncio.Event().wait()

        async def send(message):
            sent.append(message)

        await self.app(scope, receive, send)
        content = b"".join(message.get("body", b"") for message in sent[1:])
        headers = {k.decode().lower(): v.decode() for k, v in sent[0]["headers"]}
        return Answer(sent[0]["status"], headers, content)


@pytest.fixture
def here():
    return Client()


async def test_the_page_and_its_files_are_local(here):
    page = await here.ask("GET", "/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert b"//" not in page.content  # nothing from elsewhere
    for path in ("/page/live.js", "/page/live.css", "/assets/uPlot.iife.min.js"):
        assert (await here.ask("GET", path)).status == 200


@pytest.mark.parametrize(("method", "path"), CHANGES)
async def test_nothing_changes_without_the_pages_own_header(here, method, path):
    assert (await here.ask(method, path, b"{}")).status == 403


@pytest.mark.parametrize(("method", "path"), CHANGES)
async def test_nothing_changes_from_elsewhere(method, path):
    elsewhere = Client("192.0.2.7")
    assert (await elsewhere.ask("GET", "/api/start")).json["controls"] is False
    assert (await elsewhere.ask(method, path, b"{}", OURS)).status == 403


async def test_what_an_operator_changes_is_logged_with_the_user(caplog):
    secret = "s" * 64
    away = Client("192.0.2.7", Access(demo=False, secret=secret))
    bearer = {"authorization": f"Bearer {ticket(secret, 7, time.time())}"}
    assert (await away.ask("POST", "/api/load", b'{"rate": 1}', OURS | bearer)).status == 200
    assert (await away.ask("GET", "/api/start", headers=bearer)).json["controls"] is True
    assert (await away.ask("POST", "/api/load", b"{}", OURS)).status == 403
    assert [each.getMessage() for each in caplog.records] == ["user 7: POST '/api/load'"]


async def test_here_the_controls_are_shown(here):
    assert (await here.ask("GET", "/api/start")).json["controls"] is True


async def test_the_knobs_are_held_within_their_ends(here):
    answer = await here.ask("POST", "/api/load", b'{"rate": 1e6, "share": -1}', OURS)
    assert answer.json == {"rate": HIGHEST_RATE, "share": 0.0}
    assert here.live.collector.load.rate == HIGHEST_RATE


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/load", b'{"rate": "many"}'),
        ("/api/load", b'{"rate": [1]}'),
        ("/api/load", b'{"rate": NaN}'),
        ("/api/load", b'{"rate": 1' + b"0" * 400 + b"}"),
        ("/api/carriers/colibri/outage", b'{"kind": "hang", "for": 1' + b"0" * 400 + b"}"),
        ("/api/carriers/colibri/outage", b'{"kind": "magic"}'),
        ("/api/carriers/colibri/outage", b'{"kind": "hang", "for": "long"}'),
        ("/api/carriers/colibri/outage", b'{"kind": "hang", "for": 1e9}'),
        ("/api/carriers/colibri/outage", b"not json"),
    ],
)
async def test_nonsense_is_a_400_with_words(here, path, body):
    answer = await here.ask("POST", path, body, OURS)
    assert answer.status == 400
    assert answer.json["error"]


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("carrier", ["nobody", "COLIBRI"])
async def test_a_carrier_that_does_not_exist_is_a_404(here, method, carrier):
    """The simulator would refuse it, with its own address in the words."""
    answer = await here.ask(method, f"/api/carriers/{carrier}/outage", b'{"kind": "hang"}', OURS)
    assert answer.status == 404
    assert carrier in answer.json["error"]


async def test_a_strategy_that_does_not_exist_is_not_compared_with(here):
    answer = await here.ask("POST", "/api/beside", b'{"strategy": "../etc"}', OURS)
    assert answer.status == 409


async def test_what_ends_the_collector_is_said(here, monkeypatch, caplog):
    said = asyncio.Event()

    async def broken():
        asyncio.get_running_loop().call_later(0.1, said.set)
        raise ZeroDivisionError

    monkeypatch.setattr(here.live.collector.load, "run", broken)
    async with here.live.lifespan(here.app):
        await asyncio.wait_for(said.wait(), 10)
    assert "No figures come any more" in caplog.text
    assert "ZeroDivisionError" in caplog.text
