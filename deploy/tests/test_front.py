"""The fronts by themselves: each strategy's nginx before an app that answers as it is told."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from deploy import plan as plan_module
from deploy import strategy as strategies
from deploy.child import Child, direct
from deploy.container import environment_of, has_front, line_and_signal, pass_on, render
from deploy.plan import ROOT, front_values, make_plan
from deploy.ports import free_port
from deploy.prepare import render_templates
from deploy.readiness import wait_until_ready
from deploy.tests.fixtures import absent
from deploy.tests.waiting import until
from offload import conf, idle

FRONTED = [name for name in strategies.names() if has_front(strategies.load(name))]
# Its app has no front of its own: the composition puts one before it.
PLAIN = "asgi-hold"
# Two nodes on one machine are no composition: --scale does that.
CONTAINED = [*(name for name in FRONTED if name != "scale-out"), PLAIN]
# The script learns of a held client by an intercepted status, so these three of the app's are lost.
INTERCEPTING = ("nginx-njs", "nginx-njs-poll")
WORDS = (
    b"HTTP/1.1 %d Words\r\nContent-Type: text/plain\r\nX-Request-ID: r-1\r\nConnection: close\r\n"
    b"\r\nthe app's own"
)

# A status of the app below: it closes the connection without an answer.
CUT = -1
# An app for uWSGI that says how many headers it got.
COUNTING = """
def application(environ, start_response):
    if environ["PATH_INFO"] == "/fails":
        start_response("503 Away", [])
        return []
    if environ["PATH_INFO"] == "/slow":
        start_response("200 OK", [])
        return endless(environ["wsgi.errors"])
    body = str(sum(name.startswith("HTTP_X_TEST") for name in environ)).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def endless(log):
    try:
        for _ in range(500):
            yield bytes(65_536)
    finally:
        log.write("over\\n")
        log.flush()
"""


class App:
    """An app in HTTP or by the uwsgi protocol: an answer is the same in both."""

    def __init__(self):
        self.status = 200  # None: it never answers
        self.words = self.polled = WORDS
        self.heads = []
        self.taken = []
        self.clients = []  # kept, or they would hang up
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self):
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.heads.append(connection.recv(65536))
                self.taken.append(connection)
                if self.status == CUT:
                    connection.close()
                elif self.status:
                    polled = b"/_offload/poll/" in self.heads[-1]
                    connection.sendall((self.polled if polled else self.words) % self.status)
                    connection.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()
        for connection in self.taken + self.clients:
            connection.close()


@pytest.fixture
def app():
    app = App()
    yield app
    with suppress(OSError):
        app.close()


@contextmanager
def nginx(name, folder, app, **environment):
    """Run the strategy's front as `make run` does, and yield its port."""
    strategy = strategies.load(name)
    ports = {name: str(app.port) for name in ("APP_PORT", "APP1_PORT", "APP2_PORT")}
    plan = make_plan(
        strategy, run_dir=folder, redis_url="redis://127.0.0.1:1/0", overrides=ports | environment
    )
    render_templates(plan)
    with started(strategy, plan.environment) as port:
        yield port


@contextmanager
def contained(name, folder, app, **environment):
    """Run the strategy's front as its container does, and yield its port."""
    strategy = strategies.load(name)
    with started(strategy, rendered(strategy, folder, app.port, **environment)) as port:
        yield port


def rendered(strategy, folder, app_port, **environment):
    outside = {
        "RUN_DIR": str(folder),
        "PATH": f"{os.environ['PATH']}:/usr/sbin",
        "BIND_HOST": "127.0.0.1",
        "PORT": str(free_port()),
        "APP_HOST": "127.0.0.1",
        "APP_PORT": str(app_port),
        "APP_HTTP_PORT": str(free_port()),
        "HUB_BIND": f"127.0.0.1:{free_port()}",
    }
    complete = environment_of(strategy, "front", outside | environment)
    render(strategy, "front", complete)
    return complete


@contextmanager
def started(strategy, environment):
    reason = strategies.why_unavailable(strategy)
    if reason or not shutil.which("nginx", path=environment["PATH"]):
        absent("nginx", reason or "apt-get install nginx  |  brew install nginx")
    child = Child(
        "front",
        direct(line_and_signal(strategy, "front")[0]),
        log=Path(environment["RUN_DIR"]) / "front.log",
        env=dict(environment),
        cwd=ROOT,
    )
    child.start()
    try:
        port = int(environment["PORT"])
        wait_until_ready(f"port 127.0.0.1:{port}", seconds=60, given_up=child.cause_of_death)
        yield port
    finally:
        child.stop(20)


def send(port, method="GET", path="/api/v2/parcels", **headers):
    """Send a request's head, and its body only where it is short."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    return connection


def ask(port, *words, **others):
    with closing(send(port, *words, **others)) as connection:
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def error_of(answer, path="api/v2/parcels"):
    """Return the status of an error in the API's shape; fails for any other answer."""
    status, headers, body = answer
    assert headers["Content-Type"] == "application/json", body
    error = json.loads(body)["error"]
    assert set(error) == {"code", "request", "message"}
    assert (error["code"], error["request"]) == (status, path)
    assert error["message"]
    return status


def hold(port, app, count, **others):
    """Open requests that the app has and never answers."""
    app.status = None
    before = len(app.taken)
    app.clients += [send(port, **others) for _ in range(count)]
    until(lambda: len(app.taken) == before + count, "the app has them", 20)


def test_a_connection_opened_ahead_lives_as_long_as_uvicorn_s():
    text = (ROOT / "deploy/base/nginx/http.conf").read_text()
    assert f"client_header_timeout {idle.LIMIT:.0f}s;" in text


def test_without_a_limit_there_is_no_directive():
    assert front_values({"FRONT_CONNECTIONS_PER_ADDRESS": "0"})["FRONT_LIMITS"] == ""
    assert "clients 256;" in front_values({})["FRONT_LIMITS"]
    assert "clients 9;" in front_values({"FRONT_CONNECTIONS_PER_ADDRESS": "9"})["FRONT_LIMITS"]


@pytest.mark.parametrize("name", CONTAINED)
def test_production_limits_connections_and_the_lab_does_not(name, tmp_path):
    strategy = strategies.load(name)
    lab = make_plan(strategy, run_dir=tmp_path, redis_url="redis://127.0.0.1:1/0", inherited={})
    assert lab.environment["FRONT_LIMITS"] == ""
    rendered(strategy, tmp_path, 1)
    text = (tmp_path / "nginx.conf").read_text()
    assert "limit_conn clients 256;" in text
    assert "limit_conn large_bodies 16; limit_conn documents 16;" in text


@pytest.mark.integration
@pytest.mark.parametrize("name", FRONTED)
def test_its_own_errors_have_the_api_s_shape(name, tmp_path, app):
    with nginx(name, tmp_path, app, FRONT_TIMEOUT="1") as port:
        assert error_of(ask(port, "POST", Content_Length="2097153")) == 413
        assert error_of(ask(port, "GET", "/_offload/x"), "_offload/x") == 404
        # What can't stand in a JSON string ends the address that is shown.
        assert error_of(ask(port, "GET", '/_offload/a"b?c=1'), "_offload/a") == 404
        app.status = None
        if name != "uwsgi-offload":  # it asks once more, for 15 s
            assert error_of(ask(port)) == 504
        app.close()
        assert error_of(ask(port)) == 502


@pytest.mark.integration
@pytest.mark.parametrize("name", [*FRONTED, PLAIN])
def test_what_it_can_t_read_or_keep_is_answered_in_that_shape(name, tmp_path, app):
    front = contained if name == PLAIN else nginx
    with front(name, tmp_path, app) as port:
        assert error_of(ask(port, X_Test="x" * 9_000)) == 400
        assert error_of(ask(port, path="/" + "x" * 9_000), "") == 414
        assert error_of(ask(port, "TRACE")) == 405
        assert error_of(ask(port, "POST", Transfer_Encoding="gzip")) == 501
        for status, line in ((400, b"GET"), (505, b"GET / HTTP/2.0")):
            with socket.create_connection(("127.0.0.1", port), 30) as client:
                client.sendall(line + b"\r\n\r\n")
                head, _, body = client.makefile("rb").read().partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status)
            assert json.loads(body)["error"]["code"] == status
        assert error_of(ask(port, path="/_own_error"), "_own_error") == 404
        assert not app.taken
        (tmp_path / "nginx_client_body").rename(tmp_path / "gone")
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as client:
            client.request("POST", "/api/v2/parcels", b"x" * 200_000)
            answer = client.getresponse()
            assert error_of((answer.status, answer.headers, answer.read())) == 500


@pytest.mark.integration
@pytest.mark.parametrize("name", FRONTED)
def test_the_app_s_answers_pass(name, tmp_path, app):
    with nginx(name, tmp_path, app) as port:
        for app.status in (200, 400, 401, 404, 405, 414, 429, 503):
            assert ask(port)[::2] == (app.status, b"the app's own")
        for app.status in (413, 500, 502):
            answer = ask(port)
            assert answer[0] == app.status
            assert answer[1].get_all("X-Request-ID") == ["r-1"]  # support asks for it
            if name in INTERCEPTING:
                error_of(answer)
            else:
                assert answer[2] == b"the app's own"


@pytest.mark.integration
@pytest.mark.parametrize("name", FRONTED)
def test_an_address_has_so_many_connections(name, tmp_path, app):
    with nginx(name, tmp_path, app, FRONT_CONNECTIONS_PER_ADDRESS="2") as port:
        hold(port, app, 2)
        refused = ask(port)
        assert error_of(refused) == 429
        assert refused[1]["Retry-After"] == "1"
        app.clients.pop().close()
        app.status = 200
        until(lambda: ask(port)[0] == 200, "room again", 20)


@pytest.mark.parametrize("name", FRONTED)
def test_no_answer_of_a_node_makes_it_a_dead_one(name):
    """One client could have all of them taken for dead, by requests that they don't answer."""
    text = (strategies.load(name).folder / "nginx.conf.in").read_text()
    servers = re.findall(r"^ *server .*;$", text, re.MULTILINE)
    assert servers
    assert all(line.endswith(" max_fails=0;") for line in servers), servers


@pytest.mark.integration
def test_what_frames_a_body_is_for_nginx_alone(tmp_path, app):
    """uWSGI passes a held request's headers on to the hub, and its body without chunks: a 400."""
    framing = {"Transfer_Encoding": "chunked", "Expect": "100-continue"}
    with (
        nginx("uwsgi-offload", tmp_path, app) as port,
        closing(send(port, "POST", **framing)) as connection,
    ):
        connection.send(b"2\r\n{}\r\n0\r\n\r\n")
        assert connection.getresponse().status == 200
    assert b"HTTP_HOST" in app.heads[0]
    assert not [name for name in framing if b"HTTP_" + name.upper().encode() in app.heads[0]]


@pytest.mark.integration
def test_nodes_that_cut_connections_are_asked_again(tmp_path, app):
    with nginx("scale-out", tmp_path, app) as port:
        app.status = CUT
        assert {error_of(ask(port)) for _ in range(20)} == {502}
        app.status = 200
        assert [ask(port)[0] for _ in range(4)] == [200] * 4


@contextmanager
def before_two(folder, app, other_port, **environment):
    """Run the front of the composition before two web containers, and yield its port."""
    strategy = strategies.load(PLAIN)
    environment = rendered(strategy, folder, app.port, **environment)
    config = folder / "nginx.conf"
    server = f"server 127.0.0.1:{app.port} max_fails=0;"
    assert server in config.read_text()
    both = f"{server} {server.replace(str(app.port), str(other_port))}"
    config.write_text(config.read_text().replace(server, both))
    with started(strategy, environment) as port:
        yield port


@pytest.mark.integration
def test_a_web_container_that_is_gone_costs_no_request(tmp_path, app):
    with before_two(tmp_path, app, free_port()) as port:
        assert [ask(port, "POST")[0] for _ in range(8)] == [200] * 8


@contextmanager
def frozen():
    """Yield the port of a node with a full backlog: connections to it time out."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as queue:
        with suppress(TimeoutError):
            while True:
                queued = socket.create_connection(listener.getsockname(), timeout=0.5)
                queue.enter_context(queued)
        yield listener.getsockname()[1]


@pytest.mark.integration
@pytest.mark.parametrize("name", ["scale-out", PLAIN])
def test_a_node_that_takes_no_connection_costs_no_request(name, tmp_path, app):
    with ExitStack() as stack:
        other = stack.enter_context(frozen())
        if name == PLAIN:
            front = before_two(tmp_path, app, other)
        else:
            front = nginx(name, tmp_path, app, APP2_PORT=str(other))
        port = stack.enter_context(front)
        # nginx has two processes: four requests are more than the first of each.
        with ThreadPoolExecutor(4) as pool:
            answers = pool.map(lambda _: ask(port, "POST")[0], range(4))
            assert [*answers] == [200] * 4


@pytest.mark.integration
def test_a_hub_that_takes_no_connection_costs_no_hold(tmp_path, app):
    app.words = WORDS.replace(b"Words\r\n", b"Words\r\nX-Accel-Redirect: /_offload/hold/t\r\n")
    with ExitStack() as stack:
        hub = stack.enter_context(closing(App()))
        hubs = {"HUB1_PORT": str(hub.port), "HUB2_PORT": str(stack.enter_context(frozen()))}
        port = stack.enter_context(nginx("scale-out", tmp_path, app, **hubs))
        with ThreadPoolExecutor(4) as pool:
            answers = pool.map(lambda _: ask(port, "POST")[0], range(4))
            assert [*answers] == [200] * 4
        assert len(app.taken) == len(hub.taken) == 4  # the app was not asked for a late answer


HELD = b"HTTP/1.1 %d Held\r\nX-Offload-Ticket: t\r\n\r\n"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("status", "body"),
    [(503, b""), (502, b""), (404, b""), (302, b""), (302, b"there"), (204, b""), (201, b"\xff")],
)
def test_a_poll_s_answer_is_the_app_s(status, body, tmp_path, app):
    app.status, app.words = 418, HELD
    head = b"HTTP/1.1 %d Words\r\nX-Status: %%d\r\nLocation: /there\r\n\r\n" % status
    app.polled = head + body
    with nginx("nginx-njs-poll", tmp_path, app) as port:
        answer = ask(port, "POST")
    assert answer[::2] == (status, body if status == 201 else b"")
    assert answer[1].get_all("Location") == ["/there"]


@pytest.mark.integration
def test_a_poll_s_answer_depends_on_no_condition(tmp_path, app):
    """Of a script's 200 nginx made a 412 or a 304, when the label was bought."""
    app.status, app.words = 418, HELD
    app.polled = b"HTTP/1.1 200 OK\r\nX-Status: %d\r\n\r\nlabel"
    conditions = {
        "If_Match": '"x"',
        "If_None_Match": "*",
        "If_Unmodified_Since": "Sun, 29 Nov 2026 00:00:00 GMT",
    }
    with nginx("nginx-njs-poll", tmp_path, app) as port:
        answers = [ask(port, "POST", **{name: value}) for name, value in conditions.items()]
    assert [answer[::2] for answer in answers] == [(200, b"label")] * 3


@pytest.mark.integration
@pytest.mark.parametrize("at", [b"Length", b"ole"], ids=["in its headers", "in its body"])
def test_a_poll_s_answer_that_is_cut_is_asked_for_again(at, tmp_path, app):
    app.status, app.words = 418, HELD
    whole = b"HTTP/1.1 502 Released\r\nX-Status: %d\r\nContent-Length: 5\r\n\r\nwhole"
    app.polled = whole.partition(at)[0]
    with nginx("nginx-njs-poll", tmp_path, app) as port, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, port, "POST")
        until(lambda: len(app.heads) > 2 or asked.done(), "another poll", 20)
        app.polled = whole
        assert asked.result()[::2] == (502, b"whole")


@pytest.mark.integration
def test_a_poll_s_answer_may_be_as_large_as_offload_releases_it(tmp_path, app):
    app.status, app.words = 418, HELD
    most = conf.Offload.max_answer
    app.polled = b"HTTP/1.1 200 OK\r\nX-Status: %d\r\n\r\n" + bytes(most)
    with nginx("nginx-njs-poll", tmp_path, app) as port:
        status, _, body = ask(port, "POST")
    assert (status, len(body)) == (200, most)


@pytest.mark.integration
@pytest.mark.parametrize(("status", "error"), [(CUT, 502), (None, 504)], ids=["cut", "timeout"])
def test_a_post_that_was_sent_is_not_repeated(status, error, tmp_path, app):
    with (
        closing(App()) as other,
        before_two(tmp_path, app, other.port, FRONT_TIMEOUT="1") as port,
    ):
        app.status = other.status = status
        assert [error_of(ask(port, "POST")) for _ in range(6)] == [error] * 6
        assert len(app.taken + other.taken) == 6
        error_of(ask(port, "GET"))
        assert len(app.taken + other.taken) == 6 + 2  # the control: a GET is


@pytest.mark.integration
def test_uwsgi_takes_all_that_nginx_takes_and_logs_no_address(tmp_path):
    (tmp_path / "shipping").mkdir()
    (tmp_path / "shipping" / "wsgi.py").write_text(COUNTING)
    port = free_port()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PROJECT_DIR": str(tmp_path),
        "RUN_DIR": str(tmp_path),
        "APP_HOST": "127.0.0.1",
        "APP_PORT": str(port),
    }
    line = f"uwsgi --ini {ROOT}/deploy/base/uwsgi.ini"
    uwsgi = Child("web", line, log=tmp_path / "web.log", env=environment)
    uwsgi.start()
    try:
        uwsgi.wait_ready(f"port 127.0.0.1:{port}", 60)
        with nginx("uwsgi-prefork", tmp_path, SimpleNamespace(port=port)) as front:
            four = {f"X-Test-{number}": "x" * 7_900 for number in range(4)}
            assert ask(front, **four)[::2] == (200, b"4")
            # The query is sent twice, in the address and by itself.
            three = {name: four[name] for name in list(four)[:3]}
            assert ask(front, "GET", "/x?" + "x" * 8_000, **three)[::2] == (200, b"3")
            assert ask(front, **four, **{"X-Test-5": "x" * 7_900})[0] == 400  # nginx' own
            assert ask(front, path="/fails?email=a@b")[0] == 503
            with closing(send(front, path="/slow?email=a@b")) as leaving:
                assert leaving.getresponse().status == 200
        until(lambda: "over" in uwsgi.log_tail(), "the view's end", 20)
        assert "GET 503 " in uwsgi.log_tail()
        assert not any(word in uwsgi.log_tail() for word in ("fails", "slow", "a@b", "127.0.0.1)"))
    finally:
        uwsgi.stop(20)


@pytest.mark.integration
@pytest.mark.parametrize("name", ["uwsgi-prefork", PLAIN])
def test_its_log_says_neither_who_asked_nor_for_what(name, tmp_path, app, capsys):
    app.close()
    with contained(name, tmp_path, app) as port:
        error_of(
            ask(port, path="/tracking/tok-1?email=a@b", Referer="https://r/tok-1"), "tracking/tok-1"
        )
    said = (tmp_path / "front.log").read_bytes().splitlines()
    assert any(b'"GET /tracking/tok-1?email=a@b' in line for line in said)
    pass_on(said, "front", plain=False)
    printed = capsys.readouterr().err
    (line,) = [json.loads(line)["event"] for line in printed.splitlines() if "connect" in line]
    scheme = "http" if name == PLAIN else "uwsgi"
    assert line.endswith(f', request: "GET", upstream: "{scheme}://127.0.0.1:{app.port}"')
    assert not any(word in printed for word in ("tok-1", "a@b", "client: "))


def test_the_app_s_own_words_pass_whole(capsys):
    said = json.dumps({"event": "Not Found: /nothing, client: x", "request": "id"})
    pass_on([said.encode()], "web", plain=False)
    assert capsys.readouterr().err == f"{said}\n"


@pytest.mark.integration
def test_in_the_lab_there_is_no_limit(tmp_path, app):
    with nginx("nginx-accel", tmp_path, app) as port:
        hold(port, app, 300)


@pytest.mark.integration
def test_fewer_of_them_may_send_large_bodies(tmp_path, app, monkeypatch):
    monkeypatch.setattr(plan_module, "LARGE_BODIES", 1)
    with nginx("nginx-accel", tmp_path, app, FRONT_CONNECTIONS_PER_ADDRESS="9") as port:
        app.status = None
        large = http.client.HTTPConnection("127.0.0.1", port)
        large.request("POST", "/api/v2/parcels", b"x" * 200_000)
        until(lambda: len(app.taken) == 1, "the app has it", 20)
        assert error_of(ask(port, "POST", Content_Length="130000")) == 429
        assert error_of(ask(port, "POST", Transfer_Encoding="chunked")) == 429
        app.status = 200
        assert ask(port)[0] == 200


DOCUMENTS = (
    "/api/v2/labels/label_printer/1?start_from=0",
    "/api/v2/labels/normal_printer",
    "//api/v2/parcels/1/documents/label",
    "/api/v2/parcels?limit=100",
    "/api/v2/customs_declaration/normal%5fprinter/1",
)


@pytest.mark.integration
@pytest.mark.parametrize("name", CONTAINED)
def test_fewer_of_them_may_fetch_documents(name, tmp_path, app):
    """What a slow reader leaves unread is kept in files, whose disk is the container's memory."""
    with contained(name, tmp_path, app) as port:
        for path in DOCUMENTS:
            hold(port, app, 16 // len(DOCUMENTS), path=path)
        hold(port, app, 16 % len(DOCUMENTS), path=DOCUMENTS[0])
        assert error_of(ask(port, path=DOCUMENTS[1]), DOCUMENTS[1][1:]) == 429
        app.status = 200
        assert ask(port, path="/api/v2/labels/1")[0] == 200
        assert ask(port, "POST", path="/api/v2/parcels")[0] == 200
        app.clients.pop().close()
        until(lambda: ask(port, path=DOCUMENTS[0])[0] == 200, "room again", 20)


@pytest.mark.integration
@pytest.mark.parametrize("name", ["nginx-accel", PLAIN])
def test_behind_a_proxy_an_address_is_the_client_s(name, tmp_path, app):
    given = {"TRUSTED_PROXIES": "127.0.0.0/8, 10.0.0.0/8", "FRONT_CONNECTIONS_PER_ADDRESS": "1"}
    with contained(name, tmp_path, app, **given) as port:
        hold(port, app, 1, X_Forwarded_For="192.0.2.1")
        hold(port, app, 1, X_Forwarded_For="192.0.2.2, 10.0.0.1")
        assert error_of(ask(port, X_Forwarded_For="192.0.2.1")) == 429
        # What the client says of itself stands to the left.
        assert error_of(ask(port, X_Forwarded_For="192.0.2.9, 192.0.2.2")) == 429


# Clients of their own: another network each, and addresses of IPv4.
NEIGHBOURS = (
    *("2001:db8:1:9::5", "2001:db8:9::5", "2001:db8:0:9:1:2:3:4", "2600::9:1:2:3:4", "2600::5"),
    *("::ffff:192.0.2.1", "::ffff:192.0.2.2", "192.0.2.3", "192.0.2.4"),
)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::7"),
        ("2001:db8:1::2:3:4", "2001:db8:1::5"),
        ("2001:db8::1:2:3:4", "2001:db8::5"),
        ("2001:db8:1:0:1:2:3:4", "2001:db8:1::5"),
        ("2001:db8:0:0:1::", "2001:db8::5"),
        ("2600::5:1:2:3:4", "2600:0:0:5::7"),
        ("2001:db8:1:a::6", "2001:db8:1:a::7"),  # a newline's byte
    ],
)
def test_an_address_of_ipv6_is_its_network(one, other, tmp_path, app):
    given = {"TRUSTED_PROXIES": "127.0.0.0/8", "FRONT_CONNECTIONS_PER_ADDRESS": "1"}
    with contained(PLAIN, tmp_path, app, **given) as port:
        hold(port, app, 1, X_Forwarded_For=one)
        for address in NEIGHBOURS:
            hold(port, app, 1, X_Forwarded_For=address)
        app.status = 200
        assert error_of(ask(port, X_Forwarded_For=other)) == 429


@pytest.mark.integration
def test_nobody_else_says_who_the_client_is(tmp_path, app):
    with contained(PLAIN, tmp_path, app, FRONT_CONNECTIONS_PER_ADDRESS="1") as port:
        hold(port, app, 1, X_Forwarded_For="192.0.2.1")
        assert error_of(ask(port, X_Forwarded_For="192.0.2.2")) == 429


@pytest.mark.integration
@pytest.mark.parametrize("name", CONTAINED)
def test_without_a_live_page_the_first_page_is_not_found(name, tmp_path, app):
    """It sent the client to itself, by whatever name the client had given."""
    app.status = 404
    with contained(name, tmp_path, app) as port:
        status, headers, _ = ask(port, "GET", "/", Host="elsewhere.example")
        assert status == 404
        assert "Location" not in headers


@pytest.mark.parametrize("name", FRONTED)
def test_the_live_page_is_where_the_plan_says(name, tmp_path):
    plan = make_plan(strategies.load(name), run_dir=tmp_path, redis_url="redis://127.0.0.1:1/0")
    assert plan.environment["FRONT_PAGE"] == f"302 {plan.environment['LIVE_URL']}/"


@pytest.mark.integration
@pytest.mark.parametrize("name", CONTAINED)
def test_nginx_accepts_what_the_container_renders(name, tmp_path):
    strategy = strategies.load(name)
    environment = rendered(strategy, tmp_path, free_port(), TRUSTED_PROXIES="10.0.0.0/8 unix")
    text = (ROOT / "deploy/base/nginx/start.sh").read_text().replace("exec nginx", "exec nginx -t")
    (tmp_path / "test.sh").write_text(text)
    done = subprocess.run(
        ["sh", str(tmp_path / "test.sh"), "nginx.conf"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr


COPIES = ("/_offload/hold/ {", "proxy_pass http://hub", "pull-header", "response-route")


@pytest.mark.parametrize("name", strategies.names())
def test_clients_are_held_by_the_files_that_offload_prints(name):
    strategy = strategies.load(name)
    text = "\n".join(template.read_text() for template in strategy.templates)
    assert not [copy for copy in COPIES if copy in text]
    assert ("configurations/hold.conf" in text) is (strategy.backend in ("accel", "njs"))
    assert ("configurations/uwsgi_hold.ini" in text) is (strategy.backend == "uwsgi")


@pytest.mark.integration
@pytest.mark.parametrize("name", FRONTED)
def test_it_starts_in_folders_with_blanks(name, tmp_path):
    """A checkout in "My projects": each front's files, and each server's own."""
    strategy = strategies.load(name)
    (checkout := tmp_path / "a checkout").symlink_to(ROOT)
    plan = make_plan(
        strategy,
        run_dir=tmp_path / "a run",
        redis_url="redis://127.0.0.1:1/0",
        overrides={"PROJECT_DIR": str(checkout)},
    )
    nginx = shutil.which("nginx", path=plan.environment["PATH"])
    if (reason := strategies.why_unavailable(strategy)) or not nginx:
        absent("nginx", reason or "apt-get install nginx  |  brew install nginx")
    render_templates(plan)
    (tmp_path / "nginx").write_text(f'#!/bin/sh\nexec {nginx} -t "$@"\n')
    (tmp_path / "nginx").chmod(0o755)
    environment = {**plan.environment, "PATH": f"{tmp_path}:{plan.environment['PATH']}"}
    done = shell(direct(strategy.processes["front"]), environment)
    assert done.returncode == 0, done.stderr
    for process, line in strategy.processes.items():
        if process.startswith("web"):
            words = shell(f"printf '%s\\n' {line}", environment).stdout.splitlines()
            assert f"{plan.run_dir}/uwsgi.ini" in words


def shell(line, environment):
    command = ["/bin/sh", "-c", line]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
