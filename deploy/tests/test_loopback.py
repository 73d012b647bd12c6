"""Plain HTTP to a server of our own: statuses, headers, and a stream of events."""

import http.server
import json
import threading

import pytest

from deploy.loopback import ask, ask_json, events

pytestmark = pytest.mark.integration


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/events":
            self.answer(200, b'retry: 1000\n\ndata: {"at": 1}\n\n: ping\n\ndata: {"at": 2}\n\n')
        else:
            self.answer(int(self.path[1:]), json.dumps(dict(self.headers)).encode())

    def do_PUT(self):
        self.answer(200, self.rfile.read(int(self.headers["Content-Length"])))

    def do_DELETE(self):
        self.answer(204, b"")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def url():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_error_is_an_answer_and_no_exception(url):
    status, _ = ask(f"{url}/503")
    assert status == 503


def test_json_that_was_refused_is_an_exception(url):
    with pytest.raises(RuntimeError, match="answered 404"):
        ask_json(f"{url}/404")
    assert ask_json(f"{url}/1", {"a": 1}, method="PUT") == {"a": 1}
    assert ask_json(f"{url}/1", method="DELETE") is None


def test_logins_and_further_headers_are_sent(url):
    _, body = ask(f"{url}/200", login="a:b", more={"X-Live": "1"})
    sent = json.loads(body)
    assert (sent["Authorization"], sent["X-Live"]) == ("Basic YTpi", "1")
    assert "Content-Type" not in sent


def test_events_are_told_one_by_one(url):
    news = events(f"{url}/events")
    assert [next(news), next(news)] == [{"at": 1}, {"at": 2}]
    with pytest.raises(ConnectionError, match="has ended"):
        next(news)
