"""Behind PgBouncer in transaction mode: what it can't keep is not used, and is said."""

import importlib
import logging
import threading
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import ConnectionHandler

from deploy.stores import PostgresServer, StoreMissingError
from deploy.tests.fixtures import absent
from loadtests.faults.engines.pgbouncer import PGBOUNCER_INSTALL, PgBouncer
from offload.postgresql.listening import PostgresStore
from shipping.checks import check_statement_timeout
from shipping.postgresql import bounds

pytestmark = pytest.mark.integration

THREADS, ROUNDS = 4, 20


@pytest.fixture(scope="module", params=["", "ignore_startup_parameters = options"])
def pgbouncer(postgresql: PostgresServer, request: pytest.FixtureRequest) -> Iterator[PgBouncer]:
    """One server connection for all clients: each is where the other one's statements are."""
    try:
        server = PgBouncer(postgresql, connections=1, more=request.param)
    except StoreMissingError:
        absent("pgbouncer", PGBOUNCER_INSTALL)
    with server:
        yield server


def wrapper_at(url: str, prepare: str) -> BaseDatabaseWrapper:
    parts = urlsplit(url)
    options = bounds.options(
        pool=THREADS,
        statement_timeout=10,
        connect_timeout=2,
        prepare=prepare,
        server_options="-c lock_timeout=700",
    )
    there: dict[str, Any] = {
        "ENGINE": "shipping.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": parts.hostname,
        "PORT": parts.port,
        "OPTIONS": options,
    }
    return ConnectionHandler({"default": there, "there": there})["there"]


@pytest.fixture
def there(
    pgbouncer: PgBouncer, request: pytest.FixtureRequest, django_db_blocker: Any
) -> Iterator[BaseDatabaseWrapper]:
    wrapper = wrapper_at(pgbouncer.url, getattr(request, "param", "auto"))
    connections["there"] = wrapper
    try:
        with django_db_blocker.unblock():
            yield wrapper
    finally:
        wrapper.close()
        wrapper.close_pool()  # type: ignore[attr-defined] # PostgreSQL's
        del connections["there"]


def ask(database: BaseDatabaseWrapper, sql: str, *values: Any) -> Any:
    with database.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone()[0]


def many(database: BaseDatabaseWrapper) -> list[Exception]:
    """Have several threads ask the same in turn; return what went wrong."""
    wrong: list[Exception] = []

    def one() -> None:
        own = database.copy("there")
        try:
            for number in range(ROUNDS):
                assert ask(own, "SELECT %s::int + 40", number) == number + 40
                own.close()  # the next one takes another connection of the pool
        except Exception as error:
            wrong.append(error)
        finally:
            own.close()

    threads = [threading.Thread(target=one) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def test_nothing_is_prepared_and_it_is_said(
    there: BaseDatabaseWrapper, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "shipping.postgresql.pooler"):
        assert many(there) == []
    assert ask(there, "SELECT count(*) FROM pg_prepared_statements") == 0
    assert caplog.text.count("a pooler stands before the database") == 1


@pytest.mark.parametrize("there", ["1"], indirect=True)
def test_prepared_all_the_same_they_are_lost(there: BaseDatabaseWrapper) -> None:
    """The control: what DATABASE_PREPARE=1 is not for, before PgBouncer 1.21."""
    assert any("prepared statement" in str(error) for error in many(there))


def test_a_transaction_stays_with_its_server(there: BaseDatabaseWrapper) -> None:
    with transaction.atomic(using="there"):
        first = ask(there, "SELECT txid_current()")
        assert ask(there, "SELECT txid_current()") == first


def test_the_check_says_that_no_statement_is_ended(there: BaseDatabaseWrapper) -> None:
    found = check_statement_timeout(databases=["there"])
    assert [message.id for message in found] == ["shipping.W003"]
    ask(there, "SELECT set_config('statement_timeout', '10s', false)")  # as the role would
    assert check_statement_timeout(databases=["there"]) == []
    ask(there, "SELECT set_config('statement_timeout', '0', false)")


def test_without_a_pooler_the_check_is_silent(
    postgresql: PostgresServer, django_db_blocker: Any
) -> None:
    wrapper = connections["there"] = wrapper_at(postgresql.url, "auto")
    try:
        with django_db_blocker.unblock():
            assert check_statement_timeout(databases=["there"]) == []
            assert ask(wrapper, "SHOW lock_timeout") == "700ms"
    finally:
        wrapper.close()
        wrapper.close_pool()  # type: ignore[attr-defined] # PostgreSQL's
        del connections["there"]


async def test_a_hub_without_wake_ups_still_reads(
    pgbouncer: PgBouncer, postgresql: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Two hubs on one server connection: prepared, the second's statements would be the first's."""
    with psycopg.connect(postgresql.create_database("pooled"), autocommit=True) as direct:
        direct.execute(importlib.import_module("offload.postgresql.migrations.0001_store").CREATE)
    trouble: list[str] = []
    hubs = [PostgresStore(pgbouncer.url_of("pooled"), trouble.append) for _ in range(2)]
    for number in range(ROUNDS):
        await hubs[0].pipe.ask("SET", f"answer-{number}", "here", "NX", "EX", 60)
        found = [await hub.pipe.ask("GET", f"answer-{number}") for hub in hubs]
        assert found == [b"here", b"here"]
    async with aclosing(hubs[0].wake_ups(0.1)) as wake_ups:
        assert await anext(wake_ups) is None
    assert "no release is heard" in caplog.text
    for hub in hubs:
        await hub.aclose()
    assert trouble == []
    with psycopg.connect(pgbouncer.url_of("pooled"), autocommit=True) as shared:
        assert shared.execute("SELECT pg_listening_channels()").fetchall() == []
