"""What deploy.container makes of a strategy's folder, without starting anything."""

import re
import signal
import socket
import struct
import threading

import pytest

from deploy import strategy as strategies
from deploy.container import (
    SWEEPER_SECONDS,
    command_of,
    environment_of,
    render,
    stop_signal,
    why_ill,
    with_password,
)
from deploy.tests.composed import composition
from deploy.tests.test_compose import GIVEN, composable
from deploy.uwsgi_question import uwsgi_status

NAMES = [strategy.name for strategy in composable()]


@pytest.fixture
def outside(tmp_path):
    """The environment of the service `web`, with its secrets and its folder here."""

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
        if process == "front":
            assert f"server {app}:8001;" in texts


@pytest.mark.parametrize("name", NAMES)
def test_the_hub_asks_the_app_where_it_is(name, outside):
    strategy = strategies.load(name)
    url = environment_of(strategy, "hub", outside("hub"))["OFFLOAD_RESOLVE_URL"]
    assert re.fullmatch(r"http://web:800[12]/_offload/answers", url)


@pytest.mark.parametrize("name", NAMES)
def test_each_process_has_a_command(name):
    strategy = strategies.load(name)
    assert all(command_of(strategy, process) for process in {"front", *strategy.processes})


def test_passwords_come_from_files_into_the_addresses(outside):
    environment = environment_of(strategies.load("asgi-hold"), "web", outside())
    assert environment["DATABASE_URL"] == "postgresql://parcels:p%40ss%2Fword@postgres:5432/parcels"
    assert environment["REDIS_URL"] == "redis://:p%40ss%2Fword@redis:6379/0"


def test_a_password_in_the_address_is_replaced():
    assert with_password("redis://me:old@host:1/0", "new") == "redis://me:new@host:1/0"


def test_a_strategy_s_sizes_win_over_the_defaults_and_lose_to_the_composition(outside):
    prefork = strategies.load("uwsgi-prefork")
    assert environment_of(prefork, "web", outside())["WEB_WORKERS"] == "5"
    given = outside() | {"WEB_WORKERS": "3"}
    assert environment_of(prefork, "web", given)["WEB_WORKERS"] == "3"
    assert environment_of(strategies.load("asgi-hold"), "web", outside())["WEB_WORKERS"] == "2"


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
    assert signal.Signals(stop_signal(strategies.load(name), process)).name == expected


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
@pytest.mark.parametrize("status", [200, 503])
def test_the_uwsgi_question_reads_the_status(status):
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
        assert uwsgi_status("127.0.0.1", listener.getsockname()[1], "/readyz") == status
        thread.join()
    assert b"PATH_INFO\x07\x00/readyz" in seen["body"]
