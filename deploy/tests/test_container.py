"""What deploy.container makes of a strategy's folder, without starting anything."""

import re
import resource
import signal
import socket
import struct
import threading

import pytest

from deploy import strategy as strategies
from deploy.child import DESCRIPTORS, Child
from deploy.container import (
    SWEEPER_SECONDS,
    address_towards,
    addresses_of,
    environment_of,
    has_front,
    line_and_signal,
    main,
    render,
    run,
    why_ill,
    with_password,
)
from deploy.plan import ROOT, make_plan
from deploy.prepare import render_templates
from deploy.readiness import NotReadyError, wait_until_ready, why_not_ready
from deploy.tests.composed import composition
from deploy.tests.test_compose import GIVEN, ask, composable

NAMES = [strategy.name for strategy in composable()]


INSIDE = "10.1.2.3"


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """The environment of the service `web`, with its secrets and its folder here."""
    monkeypatch.setattr("deploy.container.address_towards", {"web-latest:8001": INSIDE}.__getitem__)

    def make(service="web"):
        given = composition(**GIVEN)["services"][service]["environment"]
        for name in ("database_password", "redis_password"):
            (tmp_path / name).write_text("p@ss/word\n")
        values = {name: str(value) for name, value in given.items()}
        values = {
            name: text.replace("/run/secrets", str(tmp_path)) for name, text in values.items()
        }
        return values | {"RUN_DIR": str(tmp_path)}

    return make


def rendered(folder):
    files = [path for path in folder.rglob("*") if path.suffix in (".conf", ".ini")]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_looks_for_the_app_on_its_own_machine(name, outside, tmp_path):
    """The front asks `web`; the app listens where the front can reach it."""
    strategy = strategies.load(name)
    for process, app in (("front", "web"), ("web", "0.0.0.0")):
        environment = environment_of(strategy, process, outside(process))
        render(strategy, process, environment)
        texts = "\n".join(rendered(tmp_path).values())
        assert not re.search(r"127\.0\.0\.1:(8001|8002|\$)", texts)
        assert not re.search(r"127\.0\.0\.1", environment["OFFLOAD_RESOLVE_URL"])
        if process == "front":
            assert re.search(rf"server {app}:8001[; ]", texts)


@pytest.mark.parametrize("name", NAMES)
def test_the_app_listens_on_the_inner_network_alone(name, outside, tmp_path, monkeypatch):
    """The uwsgi protocol asks for no password, and `outside` leads to the carriers."""
    strategy = strategies.load(name)
    environment = environment_of(strategy, "web", outside())
    render(strategy, "web", environment)
    assert environment["BIND_HOST"] == INSIDE
    sockets = re.findall(r"-socket = (.*):", "\n".join(rendered(tmp_path).values()))
    assert set(sockets) == {"$(APP_HOST)"}  # uWSGI takes it from its environment
    assert environment["APP_HOST"] == INSIDE
    asked: list[str] = []
    monkeypatch.setattr("deploy.container.why_not_ready", asked.append)
    monkeypatch.setattr("deploy.container.environment_of", lambda *_: environment)
    why_ill(strategy, "web")
    why_ill(strategy, "web", "/healthz")
    assert asked == [
        f"{'uwsgi ' if has_front(strategy) else 'GET http://'}{INSIDE}:8001{page}"
        for page in ("/readyz", "/healthz")
    ]
    assert INSIDE in environment["ALLOWED_HOSTS"].split(",")  # or its answer would be a 400


def test_alive_asks_nothing_of_the_stores(outside, monkeypatch):
    """What is restarted for it would be restarted with the database's every outage."""
    for name, value in outside().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STRATEGY", "asgi-hold")
    asked: list[str] = []
    monkeypatch.setattr("deploy.container.why_not_ready", asked.append)
    assert main(["alive", "web"]) == main(["health", "web"]) == 0
    assert [question.rpartition("/")[2] for question in asked] == ["healthz", "readyz"]


def test_who_is_told_its_address_looks_no_name_up(outside):
    """A pod: else its probes would restart it where names are away, and it could not start."""
    given = outside() | {"BIND_HOST": "10.0.0.7"}
    del given["BIND_TOWARDS"]
    environment = environment_of(strategies.load("asgi-hold"), "web", given)
    assert environment["BIND_HOST"] == environment["APP_HOST"] == "10.0.0.7"
    assert "10.0.0.7" in environment["ALLOWED_HOSTS"].split(",")  # by it the health check asks


@pytest.mark.integration
def test_a_process_may_open_what_its_holds_need(outside, monkeypatch):
    """Kubernetes can't set it: the limit is the node's, with some engines 1,024."""
    for name, value in outside().items():
        monkeypatch.setenv(name, value)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(DESCRIPTORS, limits[1])
    line = f'sh -c "test $(ulimit -n) -eq {most}"'
    monkeypatch.setattr("deploy.container.line_and_signal", lambda *_: (line, signal.SIGTERM))
    monkeypatch.setattr("deploy.container.signal.signal", lambda *_: None)  # pytest's stay
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        assert run(strategies.load("asgi-hold"), "web") == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_the_name_that_shows_the_way_is_web_s_own_on_the_inner_network_alone():
    """A store's name goes with it, where the operator has stores of another place."""
    services = composition(**GIVEN)["services"]
    web = services["web"]
    host, _, _ = web["environment"]["BIND_TOWARDS"].partition(":")
    assert services["hub"]["environment"]["APP_HOST"] == host  # the hub is on both, too
    assert host != "web"  # by that it is known on both
    assert [net for net, own in web["networks"].items() if host in own.get("aliases", [])] == [
        "inside"
    ]


@pytest.mark.integration
def test_the_address_towards_a_neighbour_is_this_machine_s():
    assert address_towards("127.0.0.1:9") == "127.0.0.1"


HTTP_SOCKETS = [name for name in NAMES if "APP_HTTP_PORT" in strategies.load(name).ports]


def hello(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["PATH_INFO"].encode()]


@pytest.mark.integration
@pytest.mark.parametrize("name", HTTP_SOCKETS)
def test_by_http_the_app_answers_the_hub_s_question_alone(name, tmp_path):
    plan = make_plan(
        strategies.load(name),
        run_dir=tmp_path,
        redis_url="redis://127.0.0.1:1/0",
        overrides={"WEB_WORKERS": "1"},
    )
    render_templates(plan)
    child = Child(
        "web",
        f"{plan.strategy.processes['web']} --module deploy.tests.test_container:hello",
        log=tmp_path / "web.log",
        env=dict(plan.environment),
        cwd=ROOT,
    )
    child.start()
    try:
        app, http = (plan.environment[name] for name in ("APP_PORT", "APP_HTTP_PORT"))
        wait_until_ready(f"uwsgi 127.0.0.1:{app}/readyz", seconds=60, given_up=child.cause_of_death)
        base = f"http://127.0.0.1:{http}"
        assert ask(f"{base}/_offload/answers?a=b") == (200, b"/_offload/answers")
        for path in ("/", "/readyz", "/api/v2/parcels", "/_offload/late/x", "/_offload/answers/x"):
            assert ask(base + path)[0] == 404, path
        # By the front's protocol, whatever port its clients came to.
        assert why_not_ready(f"uwsgi 127.0.0.1:{app}/api/v2/parcels") == ""
    finally:
        child.stop(20)


@pytest.mark.parametrize("name", NAMES)
def test_the_hub_asks_the_app_where_it_is(name, outside):
    strategy = strategies.load(name)
    url = environment_of(strategy, "hub", outside("hub"))["OFFLOAD_RESOLVE_URL"]
    assert re.fullmatch(r"http://web-latest:800[12]/_offload/answers", url)


@pytest.mark.parametrize("name", NAMES)
def test_each_process_has_a_command(name):
    strategy = strategies.load(name)
    assert all(line_and_signal(strategy, process) for process in {"front", *strategy.processes})


def test_passwords_come_from_files_into_the_addresses(outside):
    environment = environment_of(strategies.load("asgi-hold"), "web", outside())
    assert environment["DATABASE_URL"] == "postgresql://parcels:p%40ss%2Fword@postgres:5432/parcels"
    assert environment["REDIS_URL"] == "redis://:p%40ss%2Fword@redis:6379/0"


def test_a_password_in_the_address_is_replaced():
    assert with_password("redis://me:old@host:1/0", "new") == "redis://me:new@host:1/0"
    assert with_password("unix:///redis.sock", "new") == "unix://:new@/redis.sock"


def test_what_is_no_address_is_left_to_who_reads_it():
    assert with_password("redis:6379", "new") == "redis:6379"  # not this host's


def test_a_strategy_s_sizes_win_over_the_defaults_and_lose_to_the_composition(outside):
    prefork = strategies.load("uwsgi-prefork")
    assert environment_of(prefork, "web", outside())["WEB_WORKERS"] == "5"
    given = outside() | {"WEB_WORKERS": "3"}
    assert environment_of(prefork, "web", given)["WEB_WORKERS"] == "3"
    assert environment_of(strategies.load("asgi-hold"), "web", outside())["WEB_WORKERS"] == "2"


def test_a_wrong_number_of_workers_is_named(outside):
    given = outside() | {"WEB_WORKERS": "0"}
    with pytest.raises(strategies.StrategyError, match="WEB_WORKERS is a number, 1 or more"):
        environment_of(strategies.load("uwsgi-prefork"), "web", given)


@pytest.mark.parametrize(
    ("name", "process", "expected"),
    [
        ("nginx-accel", "front", "SIGQUIT"),
        ("nginx-accel", "web", "SIGHUP"),
        ("asgi-hold", "front", "SIGQUIT"),
        ("asgi-hold", "web", "SIGTERM"),
    ],
)
def test_each_ends_by_its_own_signal(name, process, expected):
    assert signal.Signals(line_and_signal(strategies.load(name), process)[1]).name == expected


def test_a_sweeper_that_stands_still_is_ill(outside, tmp_path, monkeypatch):
    for name, value in outside().items():
        monkeypatch.setenv(name, value)
    strategy = strategies.load("asgi-hold")
    assert "has not been written" in why_ill(strategy, "sweeper")
    ready = tmp_path / "sweeper.ready"
    ready.write_text("1")
    assert not why_ill(strategy, "sweeper")
    now = ready.stat().st_mtime
    monkeypatch.setattr("deploy.container.time.time", lambda: now + SWEEPER_SECONDS + 1)
    assert "the last good round was 31 s ago" in why_ill(strategy, "sweeper")


@pytest.mark.integration
@pytest.mark.parametrize(("status", "ready"), [(200, True), (503, False), ("", False)])
def test_the_uwsgi_question_reads_the_status(status, ready):
    seen: dict[str, bytes] = {}

    def serve():
        connection, _ = listener.accept()
        with connection:
            _, size, _ = struct.unpack("<BHB", connection.recv(4))
            seen["body"] = connection.recv(size)
            connection.sendall(f"HTTP/1.1 {status} Words\r\n\r\nbody".encode())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        said = why_not_ready(f"uwsgi 127.0.0.1:{listener.getsockname()[1]}/readyz")
        thread.join()
    assert (said == "") == ready
    assert said == "" or str(status) in said
    assert b"PATH_INFO\x07\x00/readyz" in seen["body"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("", ['{"event": "*** Starting \\"it\\" ***", "logger": "web"}', '{"event": "ours"}']),
        ("line", ['*** Starting "it" ***', '{"event": "ours"}']),
    ],
)
def test_what_servers_say_themselves_is_json_too(form, expected, outside, monkeypatch, capsys):
    """uWSGI's start, nginx' error log, Celery's last word."""
    for name, value in (outside() | {"LOG_FORMAT": form}).items():
        monkeypatch.setenv(name, value)
    said = (
        """sh -c 'echo "*** Starting \\"it\\" ***" >&2; echo "{\\"event\\": \\"ours\\"}"; exit 3'"""
    )
    monkeypatch.setattr("deploy.container.line_and_signal", lambda *_: (said, signal.SIGTERM))
    monkeypatch.setattr("deploy.container.signal.signal", lambda *_: None)  # pytest's stay
    assert run(strategies.load("asgi-hold"), "web") == 3
    assert capsys.readouterr().err.splitlines() == expected


def test_a_hub_that_is_gone_is_named(monkeypatch):
    """uWSGI's start waits for its hub's address, and ends with a sentence instead of a number."""
    monkeypatch.setattr("deploy.container.START_SECONDS", 0)
    monkeypatch.setattr("deploy.container.socket.gethostbyname_ex", gone)
    with pytest.raises(NotReadyError, match="hub-2 has no address: Name or service not known"):
        addresses_of("hub-2")


def gone(_):
    raise OSError("Name or service not known")


@pytest.mark.integration
def test_a_name_is_given_its_address():
    assert addresses_of("localhost") == ["127.0.0.1"]


@pytest.mark.parametrize(("name", "given"), [("uwsgi-offload", "10.1.2.4"), ("nginx-accel", "hub")])
def test_uwsgi_is_told_the_hub_s_address(name, given, outside, tmp_path, monkeypatch):
    """Its offload threads look no name up; nginx does."""
    monkeypatch.setattr("deploy.container.addresses_of", lambda _: ["10.1.2.4"])
    started = []

    def start(*_, env, **__):
        started.append(env)
        return Ended()

    monkeypatch.setattr("deploy.container.subprocess.Popen", start)
    monkeypatch.setattr("deploy.container.signal.signal", lambda *_: None)
    for variable, value in (outside() | {"HUB_BIND": "hub:8100"}).items():
        monkeypatch.setenv(variable, value)
    assert run(strategies.load(name), "web") == 0
    assert started[0]["HUB_BIND"] == f"{given}:8100"


class Ended:
    stdout = ()

    def wait(self):
        return 0


class Nginx:
    """Instead of the processes: exchanges its workers at HUP, unless something is wrong."""

    def __init__(self):
        self.takes_it = True
        self.signals = []

    def children(self):
        return ["former"]

    def send_signal(self, number):
        self.signals.append(number)

    def wait_procs(self, former, timeout):
        assert (former, self.signals) == (["former"], [signal.SIGHUP])
        return (former, []) if self.takes_it else ([], former)


@pytest.fixture
def nginx(outside, tmp_path, monkeypatch):
    """A front that runs, with its container's environment and another name for web and hub."""
    for name, value in outside("front").items():
        monkeypatch.setenv(name, value)
    addresses = {"web-2": ["10.0.0.2"], "hub-2": ["10.0.0.3"]}
    monkeypatch.setattr("deploy.container.addresses_of", addresses.__getitem__)
    monkeypatch.setenv("APP_HOST", "web-2")
    monkeypatch.setenv("HUB_BIND", "hub-2:8100")
    (tmp_path / "nginx.pid").write_text("77")
    nginx = Nginx()
    monkeypatch.setattr("deploy.container.psutil.Process", {77: nginx}.__getitem__)
    monkeypatch.setattr("deploy.container.psutil.wait_procs", nginx.wait_procs)
    return nginx


@pytest.mark.parametrize("name", ["nginx-accel", "asgi-hold", "uwsgi-offload"])
def test_a_front_goes_over_to_containers_that_are_well(name, nginx, tmp_path, monkeypatch):
    asked = []

    def well(question):
        asked.append(question)
        return ""

    monkeypatch.setattr("deploy.readiness.why_not_ready", well)
    monkeypatch.setenv("STRATEGY", name)
    assert main(["reload"]) == 0
    app = "GET http://10.0.0.2:8001/readyz" if name == "asgi-hold" else "uwsgi 10.0.0.2:8001/readyz"
    assert asked == [app, *(["GET http://10.0.0.3:8100/healthz"] if name != "asgi-hold" else [])]
    configuration = (tmp_path / "nginx.conf").read_text()
    assert "server web-2:8001" in configuration
    assert ("server hub-2:8100" in configuration) is (name == "nginx-accel")
    assert nginx.signals == [signal.SIGHUP]
    nginx.signals.clear()
    nginx.takes_it = False
    assert main(["reload"]) == 1


def test_a_front_stays_with_the_old_ones_while_a_new_one_is_ill(nginx, tmp_path, monkeypatch):
    monkeypatch.setattr("deploy.container.START_SECONDS", 0.1)
    monkeypatch.setattr(
        "deploy.readiness.why_not_ready", lambda one: "no" if "10.0.0.3" in one else ""
    )
    monkeypatch.setenv("STRATEGY", "nginx-accel")
    assert main(["reload"]) == 1
    assert not (tmp_path / "nginx.conf").exists()
    assert nginx.signals == []
