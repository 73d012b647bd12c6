import http.server
import socket
import threading

import pytest

from deploy.ports import free_port
from deploy.readiness import NotReadyError, is_question, wait_until_ready, why_not_ready


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/garbage":
            self.wfile.write(b"this is not HTTP\r\n\r\n")
            return
        self.send_response(int(self.path.strip("/")))
        self.end_headers()
        self.wfile.write(b"the database is away")

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("GET http://{server}/200", ""),
        ("GET http://{server}/503", "answered 503: the database is away"),
        ("GET http://{server}/204", "answered 204"),
        ("GET http://{server}/garbage", "this is not HTTP"),
        ("port {server}", ""),
        ("redis redis://{server}/0", "answered b"),
    ],
)
def test_what_a_server_answers(server, question, reason):
    answer = why_not_ready(question.format(server=server))
    assert (answer == "") == (reason == "")
    assert reason in answer


@pytest.mark.integration
@pytest.mark.parametrize(
    "question",
    ["GET http://{none}/", "port {none}", "redis redis://{none}/0", "uwsgi {none}/readyz"],
)
def test_where_nobody_listens(question):
    assert "refused" in why_not_ready(question.format(none=f"127.0.0.1:{free_port()}"))


@pytest.mark.integration
def test_an_app_that_still_loads_is_not_ready_although_its_port_is(monkeypatch):
    monkeypatch.setattr("deploy.readiness.ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as loading:
        address = f"127.0.0.1:{loading.getsockname()[1]}"
        assert "timed out" in why_not_ready(f"uwsgi {address}/readyz")
        assert why_not_ready(f"port {address}") == ""


@pytest.mark.integration
def test_a_redis_is_ready_when_it_answers(redis_server):
    assert why_not_ready(f"redis {redis_server.url}") == ""


@pytest.mark.integration
def test_the_machines_proxy_is_not_asked(server, monkeypatch):
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    assert why_not_ready(f"GET http://{server}/200") == ""


def test_a_file_counts_once_it_has_been_written(tmp_path):
    file = tmp_path / "worker.ready"
    assert "has not been written" in why_not_ready(f"file {file}")
    file.touch()
    assert why_not_ready(f"file {file}")
    file.write_text("123")
    assert why_not_ready(f"file {file}") == ""


def test_waiting_ends_with_the_last_answer(tmp_path):
    with pytest.raises(NotReadyError, match=r"after 0 s: .*never: has not been written"):
        wait_until_ready(f"file {tmp_path}/never", seconds=0)


def test_waiting_ends_early_when_there_is_no_hope(tmp_path):
    with pytest.raises(NotReadyError, match="it died"):
        wait_until_ready(f"file {tmp_path}/never", seconds=60, given_up=lambda: "it died")


@pytest.mark.parametrize(
    ("text", "answer"), [("GET http://x", True), ("port", False), ("hope x", False), ("", False)]
)
def test_what_is_a_question(text, answer):
    assert is_question(text) is answer


def test_unit_tests_have_closed_sockets():
    """The guard of fixtures.py itself: this test is not marked."""
    with socket.socket() as connection, pytest.raises(RuntimeError, match="mark the test"):
        connection.connect(("127.0.0.1", 9))


@pytest.mark.integration
def test_marked_tests_have_open_ones(server):
    """The guard's negative control: the same call, marked, goes through."""
    host, _, port = server.partition(":")
    with socket.socket() as connection:
        connection.connect((host, int(port)))
