"""The services of docker-compose.yml as plain processes: no engine, the same commands.

What an engine would give is given here: names become 127.0.0.1, ports become free ones, secrets
and volumes are folders. Everything else (commands, environment, health checks, entry point) is
read from the files.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from deploy.child import Child
from deploy.plan import ROOT
from deploy.ports import free_ports
from deploy.stores import PostgresServer

FILE = ROOT / "docker-compose.yml"
HOSTS = "front|(?:web|hub)(?:-latest)?|redis|postgres|simulator|0\\.0\\.0\\.0|127\\.0\\.0\\.1"
PORTS = re.compile(r"\b(8000|8001|8002|8100|900[0-5]|6379|5432)\b")
VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?::([-?])([^}]*))?\})")
SECRET_NAMES = (
    "secret_key",
    "offload_secret",
    "metrics_token",
    "database_password",
    "redis_password",
)
FALLBACK_NAMES = ("secret_key_fallbacks", "offload_secret_fallbacks")


def write_secrets(folder):
    """Make the composition's secrets."""
    folder.mkdir()
    for name in SECRET_NAMES:
        (folder / name).write_text(name + "-x" * 30 + "\n")
    for name in FALLBACK_NAMES:
        (folder / name).touch()


def interpolated(text, environment):
    """Replace `${NAME:-default}` and `${NAME:?message}` as docker-compose does."""

    def value(match):
        name, kind, rest = match.groups()
        if name is None:
            return "$"
        if environment.get(name):
            return environment[name]
        if kind == "?":
            raise KeyError(f"{name}: {rest}")
        return rest or ""

    return VARIABLE.sub(value, text)


def composition(**environment):
    """Return the file as Python values, anchors and variables resolved."""
    found = _walk(yaml.safe_load(FILE.read_text()), lambda text: interpolated(text, environment))
    for service in found["services"].values():
        values = service.get("environment", {})
        # A name alone is the outside's value, if it has one.
        passed = {name: environment.get(name) for name, value in values.items() if value is None}
        service["environment"] = {
            name: value for name, value in (values | passed).items() if value is not None
        }
    return found


def _walk(value, change):
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _walk(item, change) for key, item in value.items()}
    return [_walk(item, change) for item in value] if isinstance(value, list) else value


def entry_point():
    """Return the image's entry point."""
    text = (ROOT / "deploy" / "base" / "Dockerfile").read_text()
    (line,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    return json.loads(line)


class Composed:
    """Services of one strategy, started one by one: `with Composed("asgi-hold", folder) as it:`."""

    def __init__(self, strategy, folder):
        self.folder = folder
        names = ("8000", "8001", "8002", "8100", *(f"900{n}" for n in range(6)), "6379", "5432")
        self.ports = dict(zip(names, map(str, free_ports(len(names))), strict=True))
        given = {"STRATEGY": strategy, "ALLOWED_HOSTS": "shop.example"}
        given |= {"PUBLIC_URL": "https://shop.example", "TRUSTED_PROXIES": "127.0.0.0/8"}
        self.services = composition(**given)["services"]
        self.children = {}
        self.postgresql: PostgresServer | None = None

    def __enter__(self):
        write_secrets(self.folder / "secrets")
        return self

    def __exit__(self, *_):
        for child in reversed(self.children.values()):
            child.stop(20)
        if self.postgresql is not None:
            self.postgresql.close()

    def local(self, text, service):
        """Put hosts, ports and folders of a container onto this machine."""
        text = PORTS.sub(lambda match: self.ports[match.group()], text)
        text = re.sub(rf"\b(?:{HOSTS})(?=:\d)", "127.0.0.1", text)
        text = text.replace("/run/secrets", str(self.folder / "secrets"))
        for inside in ("/run/app", "/tmp/redis.conf", "/data", "/var/lib/ledger"):
            there = str(self.folder / service / Path(inside).name)
            text = re.sub(rf"{inside}(?![\w.-])", there, text)
        return text

    def environment(self, service):
        """Return what the container would have, and the PATH of the image."""
        values = self.services[service].get("environment", {})
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
        base = {"PATH": path, "DJANGO_SETTINGS_MODULE": "shipping.settings", "LC_ALL": "C.UTF-8"}
        mine = {name: self.local(str(value), service) for name, value in values.items()}
        return base | mine | ({"APP_HOST": "127.0.0.1", "BIND_HOST": "127.0.0.1"} if mine else {})

    def command(self, service):
        """Return the command line of a service."""
        own = "build" in self.services[service]
        words = [*(entry_point() if own else []), *self.services[service]["command"]]
        return [self.local(word, service) for word in words]

    def start(self, service):
        """Start a service and wait until its own health check is content."""
        folder = self.folder / service
        for inside in ("app", "data", "ledger"):
            (folder / inside).mkdir(parents=True, exist_ok=True)
        if service == "postgres":
            self._start_postgresql()
        else:
            line = shlex.join(self.command(service))
            number = signal.Signals[self.services[service].get("stop_signal", "SIGTERM")]
            self.children[service] = Child(
                service,
                line,
                log=folder / "log",
                env=self.environment(service),
                cwd=ROOT,
                stop_signal=number,
            )
            self.children[service].start()

    def _start_postgresql(self):
        """Do what the image's entry point does, then what the service says."""
        self.postgresql = PostgresServer(port=int(self.ports["5432"]))
        self.postgresql.child.command += " " + shlex.join(self.command("postgres")[1:])
        self.postgresql.start()
        password = (self.folder / "secrets" / "database_password").read_text().strip()
        self.postgresql.execute(f"CREATE ROLE parcels LOGIN PASSWORD '{password}'")
        self.postgresql.execute("CREATE DATABASE parcels OWNER parcels")
        rules = self.postgresql.data / "pg_hba.conf"
        rules.write_text("host parcels parcels 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
        self.postgresql.execute("SELECT pg_reload_conf()")

    def run_job(self, service):
        """Run a job to its end; returns what subprocess.run does."""
        (self.folder / service / "app").mkdir(parents=True, exist_ok=True)
        return self._run(self.command(service), service)

    def manage(self, *arguments):
        """Run `manage.py` as `docker-compose run --rm migrate python manage.py …` would."""
        return self._run([*entry_point(), "exec", "python", "manage.py", *arguments], "migrate")

    def health(self, service):
        """Run the service's health check; returns what subprocess.run does."""
        kind, *words = self.services[service]["healthcheck"]["test"]
        words = [self.local(word, service) for word in words]
        return self._run(["sh", "-c", words[0]] if kind == "CMD-SHELL" else words, service)

    def _run(self, words, service):
        environment = self.environment(service)
        if self.postgresql is not None:
            environment["PATH"] += f":{self.postgresql.programs}"
        return subprocess.run(
            words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )

    def log(self, service):
        """Return what a service has printed."""
        return (self.folder / service / "log").read_text(errors="replace")
