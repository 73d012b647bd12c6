import os
import resource
import signal
import socket
import subprocess
import sys

import pytest

from offload.hub import parse, raise_descriptor_limit
from offload.tests.processes import ROOT, SECRET, Process, answers_at, start_hub, until

ENVIRONMENT = {"OFFLOAD_SECRET": SECRET}


def test_options_come_from_the_environment_and_the_command_line_wins():
    environment = ENVIRONMENT | {
        "HUB_BIND": "127.0.0.1:1",
        "HUB_WORKERS": "3",
        "REDIS_URL": "redis://a",
        "OFFLOAD_RESOLVE_URL": "http://b",
        "OFFLOAD_MAX_HOLDS": "7",
    }
    options = parse(["--bind", "127.0.0.1:2"], environment)
    assert (options.bind, options.workers, options.store) == ("127.0.0.1:2", 3, "redis://a")
    assert (options.resolve_url, options.max_holds) == ("http://b", 7)


@pytest.mark.parametrize("environment", [{}, {"OFFLOAD_SECRET": "short"}])
def test_no_hub_without_a_secret(environment, capsys):
    with pytest.raises(SystemExit):
        parse([], environment)
    assert "OFFLOAD_SECRET" in capsys.readouterr().err


def test_secret_from_a_file(tmp_path):
    (tmp_path / "secret").write_text(SECRET + "\n")
    environment = {"OFFLOAD_SECRET_FILE": str(tmp_path / "secret")}
    assert parse([], environment).secret == SECRET


@pytest.mark.parametrize("name", ["OFFLOAD_STORE", "REDIS_URL"])
def test_the_store_from_a_file(tmp_path, name):
    (tmp_path / "store").write_text("redis://:secret@there:6379/0\n")
    given = ENVIRONMENT | {f"{name}_FILE": str(tmp_path / "store")}
    assert parse([], given).store == "redis://:secret@there:6379/0"


def test_fallbacks_from_the_environment_or_a_file(tmp_path):
    one, other = "f" * 40, "g" * 40
    given = ENVIRONMENT | {"OFFLOAD_SECRET_FALLBACKS": f"{one},{other}"}
    assert parse([], given).secret_fallbacks == (one, other)
    (tmp_path / "former").write_text(f"{one}\n{other}\n")
    given = ENVIRONMENT | {"OFFLOAD_SECRET_FALLBACKS_FILE": str(tmp_path / "former")}
    assert parse([], given).secret_fallbacks == (one, other)
    assert parse([], ENVIRONMENT).secret_fallbacks == ()


def test_no_hub_with_a_short_fallback(capsys):
    with pytest.raises(SystemExit):
        parse([], ENVIRONMENT | {"OFFLOAD_SECRET_FALLBACKS": "short"})
    assert "OFFLOAD_SECRET" in capsys.readouterr().err


@pytest.mark.parametrize(
    "address",
    [
        "localhost:6379",
        "redis:6379",
        ":se@redis:6379/0",
        "redis://:se/cret@host:6379/0",
        "redis+sentinel://:se@host",
        "redis://:12/se@host:6379/0",
        "redis://:12#se@host:6379/0",
        "redis://:12?se@host:6379/0",
        "redis+sentinel://me:12/se@host:26379/0",
        "postgresql:host/name",
        "postgresql://me:se/cret@host/name",
        "postgresql://me:12/se@host/name",
        "postgresql://me:12/s?e@host/name",
        "postgresql://me:p@se@host/name",
    ],
)
@pytest.mark.parametrize("by", ["--store", "OFFLOAD_STORE", "REDIS_URL"])
def test_no_hub_for_what_is_no_store(address, by, capsys):
    arguments, given = (["--store", address], {}) if by == "--store" else ([], {by: address})
    with pytest.raises(SystemExit):
        parse(arguments, ENVIRONMENT | given)
    said = capsys.readouterr().err
    assert by in said.splitlines()[-1]
    assert "'se'" not in said
    assert address not in said


@pytest.mark.parametrize(
    ("variable", "option"),
    [
        ("HUB_WORKERS", "--workers"),
        ("OFFLOAD_MAX_HOLDS", "--max-holds"),
        ("OFFLOAD_DRAIN_SECONDS", "--drain-seconds"),
    ],
)
def test_no_hub_for_what_is_no_number(variable, option, capsys):
    with pytest.raises(SystemExit):
        parse([], ENVIRONMENT | {variable: "many"})
    assert f"argument {option}: invalid" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "option", "value", "said"),
    [
        ("HUB_WORKERS", "--workers", "0", "'0' is under its minimum of 1"),
        ("HUB_WORKERS", "--workers", "-1", "'-1' is under its minimum of 1"),
        ("OFFLOAD_MAX_HOLDS", "--max-holds", "0", "'0' is under its minimum of 1"),
        ("OFFLOAD_MAX_HOLDS_PER_ACCOUNT", "--max-holds-per-account", "0", "'0' is under its"),
        ("OFFLOAD_DRAIN_SECONDS", "--drain-seconds", "-1", "'-1' is not 0 or more seconds"),
        ("OFFLOAD_DRAIN_SECONDS", "--drain-seconds", "nan", "'nan' is not 0 or more seconds"),
        ("OFFLOAD_DRAIN_SECONDS", "--drain-seconds", "inf", "'inf' is not 0 or more seconds"),
    ],
)
def test_no_hub_for_a_number_without_sense(variable, option, value, said, capsys):
    for arguments, given in ([], {variable: value}), ([f"{option}={value}"], {}):
        with pytest.raises(SystemExit):
            parse(arguments, ENVIRONMENT | given)
        assert f"argument {option}: {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "address",
    [
        "rediss://host/1",
        "redis://:p@ss@host/1",
        "redis://host/1?password=p@ss",
        "unix:///redis@1.sock",
        "redis+sentinel://a,b/shop/0",
        "postgresql://me@db/x",
        "postgresql://db/x?user=me@shop&password=p@ss",
        "postgresql://me:p%40s%2Fs@one:5433,two/x?sslmode=require",
    ],
)
def test_a_hub_for_each_kind_of_store(address):
    assert parse(["--store", address], ENVIRONMENT).store == address


def children(process):
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, check=False)
    return [int(word) for word in found.stdout.split()]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.integration
def test_a_dead_process_is_replaced(redis_server, started):
    hub = started(start_hub(redis_server.url, workers=2))
    first = until(lambda: len(children(hub)) == 2 and children(hub))
    os.kill(first[0], signal.SIGKILL)
    until(lambda: len(children(hub)) == 2 and set(children(hub)) != set(first))
    assert first[1] in children(hub)


# The C library stops each fork's child until it gets another signal: Python's own part of the fork,
# which forgets signals that came, is still to come.
FORK_STOPS = """
import ctypes, runpy, signal
signal.signal(signal.SIGUSR1, lambda *_: None)
libc = ctypes.CDLL(None)
libc["__register_atfork"](None, None, ctypes.cast(libc.pause, ctypes.c_void_p), None)
runpy.run_module("offload.hub", run_name="__main__")
"""


def sleeps_with_a_signal_to_come(pid):
    with open(f"/proc/{pid}/status") as file:
        status = dict(line.split(":", 1) for line in file)
    pending = int(status["ShdPnd"], 16) >> (signal.SIGTERM - 1) & 1
    return pending and status["State"].split()[0] == "S"


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="glibc has such a place in a fork")
def test_a_signal_during_a_fork_ends_the_child_too(started):
    command = [sys.executable, "-c", FORK_STOPS, "--bind=127.0.0.1:0", "--workers=2"]
    hub = started(Process(*command, environment=ENVIRONMENT))
    forked = until(lambda: len(children(hub)) == 2 and children(hub))
    try:
        hub.send(signal.SIGTERM)
        until(lambda: all(map(sleeps_with_a_signal_to_come, forked)), what="a signal that waits")
    finally:
        for pid in forked:
            os.kill(pid, signal.SIGUSR1)
    assert hub.end() == 0
    assert not any(alive(pid) for pid in forked)


@pytest.mark.integration
def test_a_terminal_s_interrupt_reaches_the_parent_alone(redis_server, started):
    hub = started(start_hub(redis_server.url, workers=2))
    until(lambda: [os.getpgid(pid) == pid for pid in children(hub)] == [True, True])


STOPPED_EARLY = """
import signal, uvicorn, weakref
from offload import hub

class Thing: ...

def config(*given, made=uvicorn.Config, **options):
    thing = Thing()
    died = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGTERM))
    del thing
    return made(*given, **options)

uvicorn.Config = config
hub.main()
"""


@pytest.mark.integration
def test_a_stop_while_it_starts_is_not_forgotten(redis_server, started):
    """An exit that is raised in a callback of the garbage collector's is swallowed."""
    command = [sys.executable, "-c", STOPPED_EARLY, "--bind=127.0.0.1:0"]
    environment = ENVIRONMENT | {"REDIS_URL": redis_server.url}
    assert started(Process(*command, environment=environment)).child.wait(15) == 0


@pytest.mark.integration
def test_no_orphans_when_the_parent_is_killed(redis_server, started):
    hub = started(start_hub(redis_server.url, workers=2))
    orphans = until(lambda: len(children(hub)) == 2 and children(hub))
    hub.end(signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in orphans), what="the orphans' end")
    assert not answers_at(hub.port)


@pytest.mark.parametrize("text", ["127.0.0.1:8100", "[::1]:8100", "::1:8100", ":8100"])
def test_an_address_may_be_of_any_family(text):
    assert parse(["--bind", text], ENVIRONMENT).bind == text


NO_ADDRESSES = ["localhost", "8100", "localhost:", "a:http", "a:65536", "a:-1", "127.0.0.1:80/x"]


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_an_address_has_a_port(text, capsys):
    with pytest.raises(SystemExit):
        parse(["--bind", text], ENVIRONMENT)
    assert "--bind" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("url", ["app:8000/_offload", "ftp://app/", "http:app", "http://app:x/"])
def test_the_app_is_asked_by_http(url, capsys):
    with pytest.raises(SystemExit):
        parse([], ENVIRONMENT | {"OFFLOAD_RESOLVE_URL": url})
    assert "--resolve-url" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.integration
def test_port_in_use_is_said(redis_server, started):
    hub = started(start_hub(redis_server.url))
    second = subprocess.run(
        [sys.executable, "-m", "offload.hub", f"--bind=127.0.0.1:{hub.port}"],
        env=os.environ | ENVIRONMENT,
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert second.returncode != 0
    assert "in use" in second.stderr


@pytest.mark.integration
def test_restart_on_an_inherited_socket_refuses_nobody(redis_server):
    command = [sys.executable, "-m", "offload.hub", f"--redis={redis_server.url}"]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        descriptor = listening.fileno()

        def serve_one(client):
            """Run a hub until it has answered this client, then end it."""
            hub = subprocess.Popen(
                [*command, f"--fd={descriptor}"],
                env=os.environ | ENVIRONMENT | {"PYTHONPATH": str(ROOT)},
                pass_fds=[descriptor],
            )
            try:
                return client.recv(65536)
            finally:
                hub.terminate()
                assert hub.wait(20) == 0

        for _ in range(2):  # each connects while no hub runs at all
            with socket.create_connection(address, 20) as client:
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                assert b"200 OK" in serve_one(client)


INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ((256, INFINITE), [(20_000, INFINITE)]),  # macOS
        ((1024, 524_288), [(524_288, 524_288)]),  # Linux: all that there are
        ((1024, 1024), []),
        ((INFINITE, INFINITE), []),
    ],
)
@pytest.mark.parametrize("refused", [None, ValueError, OSError])
def test_the_limit_of_descriptors_is_raised_as_the_system_allows(
    limits, asked, refused, monkeypatch
):
    seen = []

    def setrlimit(_, wanted):
        seen.append(wanted)
        if refused or wanted[0] == INFINITE:
            raise refused or ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    raise_descriptor_limit()
    assert seen == asked
