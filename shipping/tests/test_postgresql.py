"""No statement outlasts its time: at a server that is slow, and at one that has gone silent."""

import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from deploy.ports import free_port
from deploy.stores import PostgresServer
from deploy.tests.waiting import until
from shipping.postgresql import base, bounds
from shipping.tests.black_hole import Proxy

pytestmark = pytest.mark.integration

TIMEOUT = 1.0
POOL_TIMEOUT = 2.0
# Seconds: the client's own bound, and a busy machine.
BOUND = TIMEOUT + bounds.GRACE + 1.0


@pytest.fixture
def proxy(postgresql: PostgresServer) -> Iterator[Proxy]:
    with Proxy(postgresql.port) as proxy:
        yield proxy


@pytest.fixture
def database(proxy: Proxy, django_db_blocker: Any) -> Iterator[BaseDatabaseWrapper]:
    """The application's way to the server, through the proxy, with a short bound."""
    options = bounds.options(
        pool=2,
        statement_timeout=TIMEOUT,
        connect_timeout=2,
        prepare="auto",
        server_options="-c lock_timeout=700",
    )
    options["pool"]["timeout"] = POOL_TIMEOUT
    behind: dict[str, Any] = {
        "ENGINE": "shipping.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": "127.0.0.1",
        "PORT": proxy.port,
        "OPTIONS": options,
    }
    handler = ConnectionHandler({"default": behind, "behind": behind})
    wrapper = connections["behind"] = handler["behind"]
    try:
        with django_db_blocker.unblock():
            yield wrapper
    finally:
        proxy.forward()
        wrapper.close()
        wrapper.close_pool()  # type: ignore[attr-defined] # PostgreSQL's
        del connections["behind"]


def ask(database: BaseDatabaseWrapper, sql: str = "SELECT 1") -> Any:
    with database.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def test_a_proxy_that_has_ended_connects_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread would be in the next test, where connecting may be an error."""
    before, connected = set(threading.enumerate()), list[Any]()

    def note(address: Any) -> None:
        connected.append(address)
        raise OSError

    with Proxy(1) as proxy:
        proxy.swallow()
        with socket.create_connection(("127.0.0.1", proxy.port)):
            until(lambda: len(set(threading.enumerate()) - before) == 2, "the client's thread")
            monkeypatch.setattr(socket, "create_connection", note)
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join()
    assert (left, connected) == (set(), [])


def test_of_several_hosts_the_one_that_takes_writes_is_used(postgresql: PostgresServer) -> None:
    options = bounds.options(
        pool=1,
        statement_timeout=0,
        connect_timeout=2,
        prepare="1",
        server_options="",
        several=True,
    )
    del options["pool"], options["server_side_binding"]  # Django's own
    options |= {"host": "127.0.0.1,127.0.0.1", "port": f"{free_port()},{postgresql.port}"}
    options |= {"user": "postgres"}
    psycopg.connect(**options).close()
    standby = "-c default_transaction_read_only=on"
    with pytest.raises(psycopg.OperationalError, match="session is read-only"):
        psycopg.connect(**(options | {"options": standby}))


def test_the_server_ends_a_statement_and_keeps_the_connection(
    database: BaseDatabaseWrapper,
) -> None:
    with pytest.raises(OperationalError, match="statement timeout"):
        ask(database, "SELECT pg_sleep(20)")
    assert ask(database) == 1
    assert ask(database, "SHOW lock_timeout") == "700ms"  # PGOPTIONS is kept


def test_a_server_that_takes_no_writes_is_away(database: BaseDatabaseWrapper) -> None:
    """A hosted one does so when its disk is full: what is bought is recorded when it is over."""
    with database.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    with pytest.raises(OperationalError, match="read-only"):
        ask(database, "CREATE TABLE here (id integer)")
    assert ask(database) == 1


def test_a_server_that_went_silent_is_given_up(database: BaseDatabaseWrapper, proxy: Proxy) -> None:
    assert ask(database) == 1
    proxy.swallow()
    started = time.monotonic()
    with pytest.raises(OperationalError, match="no answer from the database"):
        ask(database)
    assert TIMEOUT < time.monotonic() - started < BOUND
    proxy.forget()
    database.close()
    comes_back(database)


def test_the_end_of_a_request_waits_for_no_other_connection(
    monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any
) -> None:
    """A server that waits for its end has not yet sent the 503 that is ready."""

    def away() -> None:
        raise OperationalError("no connection within 15 s")

    given = {"ENGINE": "shipping.postgresql", "NAME": "x", "OPTIONS": {}}
    database: Any = ConnectionHandler({"default": given})["default"]
    # As `BoundedConnection.wait` leaves it.
    database.connection = SimpleNamespace(closed=True, close=lambda: None)
    monkeypatch.setattr(database, "connect", away)
    with django_db_blocker.unblock():
        database.close_if_unusable_or_obsolete()  # as `request_finished` does
    assert database.connection is None


def test_connections_that_the_server_has_ended_are_not_taken(
    database: BaseDatabaseWrapper, postgresql: PostgresServer
) -> None:
    """A restart leaves the pool full of them; each would cost a client a 500."""
    # A pool that has made a second one gives that first, of whose end the news may be on its way.
    database.settings_dict["OPTIONS"]["pool"]["max_size"] = 1
    assert ask(database) == 1
    pooled = database.connection.fileno()
    database.close()
    with psycopg.connect(postgresql.url_of("postgres"), autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
    assert select.select([pooled], [], [], 10)[0]  # the proxy has passed the news on
    assert ask(database) == 1


def test_an_idle_connection_to_a_silent_server_is_not_taken(
    database: BaseDatabaseWrapper, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is asked goes, and with it the others of its time."""
    monkeypatch.setattr(base, "ASKED_AFTER", 0.0)
    assert ask(database) == 1
    database.close()
    proxy.swallow()
    proxy.forget()
    started = time.monotonic()
    assert ask(database) == 1
    assert TIMEOUT < time.monotonic() - started < BOUND


def test_a_repeated_statement_is_prepared(database: BaseDatabaseWrapper) -> None:
    for number in range(bounds.PREPARED_AT + 1):
        with database.cursor() as cursor:
            cursor.execute("SELECT %s::int + 40", [number])
    assert ask(database, "SELECT statement FROM pg_prepared_statements") == "SELECT $1::int + 40"


def test_a_transaction_that_lost_its_server_ends(
    database: BaseDatabaseWrapper, proxy: Proxy
) -> None:
    def change() -> None:
        with transaction.atomic(using="behind"):
            ask(database)
            proxy.swallow()
            ask(database)

    started = time.monotonic()
    with pytest.raises(OperationalError):
        change()
    # Django takes a new connection at the end of a transaction whose rollback has failed.
    assert time.monotonic() - started < BOUND + 2 * POOL_TIMEOUT


def test_waiting_for_a_connection_has_a_bound(database: BaseDatabaseWrapper, proxy: Proxy) -> None:
    """Also where the connections of the pool only look alive."""
    assert ask(database) == 1
    database.close()
    proxy.swallow()
    started = time.monotonic()
    with pytest.raises(OperationalError):
        ask(database)
    assert time.monotonic() - started < BOUND + 2 * POOL_TIMEOUT
    proxy.forget()
    comes_back(database)


def comes_back(database: BaseDatabaseWrapper) -> None:
    end = time.monotonic() + 10
    while not answers(database):
        assert time.monotonic() < end


def answers(database: BaseDatabaseWrapper) -> bool:
    try:
        return bool(ask(database))
    except OperationalError:
        return False


@pytest.mark.parametrize(
    ("command", "longest"), [("check", "7s"), ("migrate", "0"), ("reconcile_invoices", "0")]
)
def test_a_long_command_may_take_its_time(
    command: str, longest: str, postgresql: PostgresServer
) -> None:
    """Also where the environment has a time for all processes, and the role one of its own."""
    url = postgresql.create_database("unhurried")
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("ALTER DATABASE unhurried SET statement_timeout = '10s'")
    program = (
        "import manage, sys; sys.argv = ['manage.py', sys.argv[1], '--help']\n"
        "try: manage.main()\n"
        "except SystemExit: pass\n"
        "from django.db import connection\n"
        "with connection.cursor() as cursor:\n"
        "    print(cursor.execute('SHOW statement_timeout').fetchone()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, command],
        cwd=settings.BASE_DIR,
        env=os.environ | {"DEBUG": "1", "DATABASE_URL": url, "DATABASE_STATEMENT_TIMEOUT": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == longest
