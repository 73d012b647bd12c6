"""How the hub asks: its signed question goes to the app alone."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from offload.hub import AskApp
from offload.tests.processes import SECRET, free_port

pytestmark = pytest.mark.integration


class App(HTTPServer):
    """It has no answers: it says `status` to all; `asked` has each method and path."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.status = 200
        self.url = f"http://127.0.0.1:{self.server_port}/answers"


class Handler(BaseHTTPRequestHandler):
    server: App

    def do_POST(self):
        self.server.asked.append(f"{self.command} {self.path}")
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def app():
    with App() as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def test_no_proxy_of_the_environment_sees_it(app, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    assert await AskApp(app.url, SECRET)(["a" * 32], final_only=True) == {}
    assert app.asked == ["POST /answers"]


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_what_is_no_answer_is_trouble_and_asked_nowhere_else(app, status):
    app.status = status
    with pytest.raises(ConnectionError, match=rf"{app.url}: HTTP Error {status}"):
        await AskApp(app.url, SECRET)(["a" * 32], final_only=True)
    assert app.asked == ["POST /answers"]
