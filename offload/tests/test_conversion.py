"""A classic project (sessions, messages, forms, DRF, its own tests) takes offload in.

`example/classic` is the project before the steps of the README; `example/converted` has the files
that are new or others after them.
"""

import difflib
import http.cookiejar
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from offload.tests.processes import (
    SECRET,
    PostgresServer,
    Process,
    answers_at,
    free_port,
    start_hub,
    until,
)
from offload.tests.test_config import Nginx, needs_nginx, printed
from offload.tests.test_stores import needs_postgresql

EXAMPLE = Path(__file__).resolve().parents[1] / "example"
BEFORE, AFTER = EXAMPLE / "classic", EXAMPLE / "converted"
PACKAGE_ROOT = EXAMPLE.parents[1]
MOST = 20
SLOW = 2.0


def files(root):
    found = {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
    return {path for path in found if "__pycache__" not in path.parts}


def changed(name):
    """Return the lines that were added, and those that were taken away; empty ones don't count."""
    one, other = ((root / name).read_text().splitlines() for root in (BEFORE, AFTER))
    lines = [*difflib.unified_diff(one, other, lineterm="", n=0)][2:]
    return [[line for line in lines if line.startswith(sign) and line[1:].strip()] for sign in "+-"]


def test_at_most_twenty_lines_outside_the_new_task():
    new = files(AFTER) - files(BEFORE)
    # What is new is the task, and the migration that `makemigrations` has written.
    assert {str(path) for path in new} == {
        "monitor/tasks.py",
        "monitor/migrations/0002_awaited.py",
    }
    both = [changed(name) for name in sorted(files(BEFORE) & files(AFTER))]
    assert all(plus or minus for plus, minus in both)
    added = sum(len(plus) for plus, _ in both)
    removed = sum(len(minus) for _, minus in both)
    assert 0 < added <= MOST
    assert 0 < removed <= MOST


def test_its_old_tests_are_untouched():
    assert Path("monitor/tests.py") in files(BEFORE) - files(AFTER)


def copied(root, folder):
    """Return the project in the folder, whole; copied when it is first asked for."""
    copy = folder / root.name
    if not copy.exists():
        shutil.copytree(BEFORE, copy)
        shutil.copytree(root, copy, dirs_exist_ok=True)
    return copy


def manage(root, folder, *arguments, **environment):
    """Run the project's manage.py on a copy of it."""
    copy = copied(root, folder)
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=copy,
        env=os.environ | surroundings(folder) | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def surroundings(folder):
    return {
        "PYTHONPATH": str(PACKAGE_ROOT),
        "DJANGO_SETTINGS_MODULE": "classic.settings",
        "DATABASE": str(folder / "db.sqlite3"),
    }


@pytest.mark.integration
@pytest.mark.parametrize("root", [BEFORE, AFTER], ids=["before", "after"])
def test_its_old_tests_are_green(root, tmp_path):
    assert "Ran 11 tests" in manage(root, tmp_path, "test")


@pytest.mark.integration
def test_its_migration_is_what_django_writes(tmp_path):
    assert "No changes" in manage(AFTER, tmp_path, "makemigrations", "--check", "--dry-run")


@pytest.fixture
def receiver():
    """The slow third party."""

    class Slow(BaseHTTPRequestHandler):
        def do_POST(self):
            time.sleep(SLOW)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


SETTINGS = """
from classic.settings import *
OFFLOAD = OFFLOAD | {values!r}
"""
USER = """
from django.contrib.auth.models import User
User.objects.create_superuser("ann", password="pass")
"""


class Browser:
    """A person: cookies, forms, redirects."""

    def __init__(self, url):
        self.url = url
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self.jar)
        )

    def open(self, path, fields=None):
        data = (
            urllib.parse.urlencode(fields | self.token()).encode() if fields is not None else None
        )
        with self.opener.open(self.url + path, data, timeout=30) as page:
            return page.read().decode()

    def token(self):
        value = next(cookie.value for cookie in self.jar if cookie.name == "csrftoken")
        return {"csrfmiddlewaretoken": value}


def prepare(folder, settings):
    """Copy the converted project with other settings, and fill its database."""
    copy = copied(AFTER, folder)
    (copy / "deployed.py").write_text(settings)
    manage(AFTER, folder, "migrate", DJANGO_SETTINGS_MODULE="deployed")
    manage(AFTER, folder, "shell", "-c", USER, DJANGO_SETTINGS_MODULE="deployed")
    return copy


def serve(started, folder, copy, *command):
    port = free_port()
    started(
        Process(
            *(sys.executable, "-m", *(word.format(port=port) for word in command)),
            environment=surroundings(folder) | {"DJANGO_SETTINGS_MODULE": "deployed"},
            directory=copy,
        )
    )
    until(lambda: answers_at(port), what="the project", seconds=60)
    return port


def press_button(url, receiver):
    """Log in, add a channel, and press its button while others use the site."""
    person = Browser(url)
    person.open("/login")
    person.open("/login?next=/", {"username": "ann", "password": "pass"})
    page = person.open("/", {"name": "ops", "url": receiver})
    assert "Channel added." in page
    (action,) = re.findall(r'action="(/channels/\d+/test)"', page)
    start = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        pressed = pool.submit(person.open, action, {})
        time.sleep(SLOW / 2)
        other = Browser(url).open("/login")  # the one worker is free
        meanwhile = time.monotonic() - start
        assert "Test notification sent!" in pressed.result()
    assert "Log in" in other
    assert meanwhile < SLOW < time.monotonic() - start


@pytest.mark.integration
def test_under_asgi(tmp_path, redis_server, started, receiver):
    values = {"REDIS_URL": redis_server.url, "MAX_CONCURRENCY": 1}
    copy = prepare(tmp_path, SETTINGS.format(values=values))
    port = serve(started, tmp_path, copy, "uvicorn", "classic.asgi:application", "--port={port}")
    press_button(f"http://127.0.0.1:{port}", receiver)


@needs_nginx
@pytest.mark.integration
def test_under_nginx_accel(tmp_path, redis_server, started, receiver, offload_settings):
    pytest.importorskip("gunicorn")
    values = {"BACKEND": "accel", "SECRET": SECRET, "REDIS_URL": redis_server.url}
    copy = prepare(tmp_path, SETTINGS.format(values=values))
    bind = "--bind=127.0.0.1:{port}"
    app = serve(started, tmp_path, copy, "gunicorn", "--workers=1", "classic.wsgi", bind)
    hub = started(start_hub(redis_server.url, f"http://127.0.0.1:{app}/_offload/answers"))
    port = free_port()
    offload_settings({"WSGI_APPLICATION": "classic.wsgi.application", "SETTINGS_MODULE": "x"})
    addresses = {"listen": port, "app": app, "hub": hub.port}
    text = printed("nginx-accel", **{name: f"127.0.0.1:{at}" for name, at in addresses.items()})
    folder = tmp_path / "nginx"
    folder.mkdir()
    started(Process(*Nginx(folder, text).command, directory=folder))
    until(lambda: answers_at(port), what="nginx")
    press_button(f"http://127.0.0.1:{port}", receiver)


@needs_postgresql
@pytest.mark.integration
def test_on_postgresql_alone(tmp_path_factory, tmp_path, started, receiver, monkeypatch):
    pytest.importorskip("django_tasks_db")
    cluster = PostgresServer(tmp_path_factory.mktemp("postgresql"))
    started(cluster.process)
    monkeypatch.setenv("PGPORT", str(cluster.port))
    copy = prepare(tmp_path, (EXAMPLE / "postgresql_alone.py").read_text())
    environment = surroundings(tmp_path) | {"DJANGO_SETTINGS_MODULE": "deployed"}
    worker = (sys.executable, "manage.py", "db_worker", "--interval", "0.1")
    started(Process(*worker, environment=environment, directory=copy))
    port = serve(started, tmp_path, copy, "uvicorn", "classic.asgi:application", "--port={port}")
    press_button(f"http://127.0.0.1:{port}", receiver)
