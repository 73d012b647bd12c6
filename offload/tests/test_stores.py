"""One contract for both stores: what is released is heard, once, and found when it was not."""

import asyncio
import importlib
import importlib.util
import shutil
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from django.db import connections, transaction
from django.http import HttpResponse

import offload
from offload import store
from offload.counting import REDIS_UP, Counts
from offload.fronts import store_late
from offload.hub_app import Hub
from offload.postgresql import READ
from offload.redis_clients import StoreTrouble, address
from offload.tests import outcomes, releases
from offload.tests.processes import PostgresServer, eventually, until
from offload.waiting import Waiters

pytestmark = pytest.mark.integration

HAS_POSTGRESQL = (
    shutil.which("initdb") and shutil.which("postgres") and importlib.util.find_spec("psycopg")
)
MIGRATION = "offload.postgresql.migrations.0001_store"
needs_postgresql = pytest.mark.skipif(not HAS_POSTGRESQL, reason="needs PostgreSQL and psycopg")
only_postgresql = pytest.mark.parametrize(
    "server", [pytest.param("postgresql", marks=needs_postgresql)], indirect=True
)
ALIAS = "offload_store"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    server = PostgresServer(tmp_path_factory.mktemp("postgresql"))
    module = importlib.import_module(MIGRATION)
    server.run(module.CREATE)
    yield server
    # Not SIGTERM: psycopg closes a connection that timed out when it is collected, maybe later.
    server.process.end(signal.SIGINT)


@pytest.fixture
def postgresql(cluster, offload_settings, django_db_blocker):
    parts = urlsplit(cluster.url)
    default = connections["default"].settings_dict
    connections.databases[ALIAS] = default | {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": parts.username,
        "HOST": parts.hostname,
        "PORT": str(parts.port),
        "OPTIONS": {},
    }
    offload_settings(BACKEND="inline", STORE="postgresql", DATABASE=ALIAS)
    with django_db_blocker.unblock():
        yield cluster
        connections[ALIAS].close()
    del connections.databases[ALIAS]
    del connections[ALIAS]


@pytest.fixture(params=["redis", pytest.param("postgresql", marks=needs_postgresql)])
def server(request, offload_settings):
    """Return the store's server; the settings name it."""
    outcomes.known.clear()
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql")
    redis_server = request.getfixturevalue("redis_server")
    offload_settings(BACKEND="inline", REDIS_URL=redis_server.url)
    return redis_server


@pytest.fixture
async def waiters(server):
    waiters = Waiters(store.url(), resolve=None, counts=Counts())
    waiters.start()
    await eventually(lambda: waiters.counts.own[REDIS_UP])
    yield waiters
    await waiters.stop()


async def never():
    await asyncio.Event().wait()


async def wait(waiters, hold_id, seconds=5.0):
    return await waiters.wait(hold_id, time.time() + seconds, never)


def in_thread(work, *arguments):
    """Do it as a worker would; Django's connection is of that thread, and closed."""

    def body():
        try:
            return work(*arguments)
        finally:
            for connection in connections.all(initialized_only=True):
                connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(body).result()


def test_the_address_is_the_server_s(server):
    assert store.url() == server.url


@needs_postgresql
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"OPTIONS": {"sslmode": "verify-full", "sslrootcert": None, "pool": True}},
            {"sslmode": "verify-full", "sslrootcert": None, "pool": None},
            id="libpq's options, and no others",
        ),
        pytest.param(
            {"OPTIONS": {"options": "-c search_path=shop"}},
            {"options": "-c search_path=shop"},
            id="a space",
        ),
        pytest.param({"HOST": "::1", "PORT": ""}, {"host": "::1", "port": "5432"}, id="IPv6"),
        pytest.param(
            {"HOST": "a,::1", "PORT": 6000}, {"host": "a,::1", "port": "6000,6000"}, id="two hosts"
        ),
        pytest.param(
            {"HOST": "/run/pg", "PORT": 6000}, {"host": "/run/pg", "port": "6000"}, id="a folder"
        ),
        pytest.param(
            dict.fromkeys(["NAME", "USER", "HOST", "PORT"], "") | {"OPTIONS": {"service": "shop"}},
            {"service": "shop", "host": None, "port": None, "dbname": None, "user": None},
            id="a service",
        ),
    ],
)
def test_separate_connections_are_as_django_s(postgresql, monkeypatch, changes, expected):
    for name, value in changes.items():
        monkeypatch.setitem(connections[ALIAS].settings_dict, name, value)
    parts = importlib.import_module("psycopg.conninfo").conninfo_to_dict(store.url())
    assert {name: parts.get(name) for name in expected} == expected
    assert "?" not in address(store.url())  # logs show that


async def test_a_release_wakes(waiters, hold_id, monkeypatch):
    monkeypatch.setattr("offload.doubts.REREAD", 1000.0)
    task = asyncio.create_task(wait(waiters, hold_id))
    await eventually(lambda: hold_id in waiters.waits)
    await waiters.pipe.ask("PING")
    assert await asyncio.to_thread(in_thread, offload.release, hold_id, HttpResponse("a"))
    assert (await task).body == b"a"


async def test_each_of_many_that_are_released_together_gets_its_own(waiters, monkeypatch):
    monkeypatch.setattr("offload.doubts.REREAD", 1000.0)
    answers = {f"{number:032x}": HttpResponse(str(number)) for number in range(300)}
    tasks = [asyncio.create_task(wait(waiters, hold_id)) for hold_id in answers]
    await eventually(lambda: len(waiters.waits) == len(answers))
    await waiters.pipe.ask("PING")
    assert await asyncio.to_thread(in_thread, offload.release_many, answers)
    ends = await asyncio.gather(*tasks)
    assert [end.body for end in ends] == [answer.content for answer in answers.values()]


async def test_a_release_before_the_hold_is_found(waiters, hold_id):
    await asyncio.to_thread(in_thread, offload.release, hold_id, HttpResponse("a"))
    assert (await wait(waiters, hold_id)).body == b"a"


async def test_nothing_released_is_late(waiters, hold_id):
    assert await wait(waiters, hold_id, 0.2) is None


def test_the_first_release_counts(server, hold_id):
    offload.release(hold_id, HttpResponse("first"))
    offload.release(hold_id, HttpResponse("second"))
    answer = offload.wait(hold_id, 5)
    assert answer is not None
    assert answer.content == b"first"


def test_a_release_ends_after_its_time(server, hold_id, monkeypatch):
    monkeypatch.setattr(store, "conf", Shorter(store.conf))
    assert offload.release(hold_id, HttpResponse("a"))
    assert store.read(f"offload:answer:{hold_id}") != [None]
    time.sleep(1.1)
    assert store.read(f"offload:answer:{hold_id}") == [None]
    assert offload.release(hold_id, HttpResponse("a"))  # and there is room for a new one
    assert store.read(f"offload:answer:{hold_id}") != [None]


class Shorter:
    def __init__(self, conf):
        self._conf = conf

    def current(self):
        return replace(self._conf.current(), answer_ttl=1)


def test_what_is_forgotten_is_gone(server, hold_id):
    offload.release(hold_id, HttpResponse("a"))
    assert offload.forget([hold_id])
    assert store.read(f"offload:answer:{hold_id}") == [None]


def test_a_worker_that_waits_is_woken(server, hold_id):
    start = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(offload.wait, hold_id, 10)
        time.sleep(0.5)
        offload.release(hold_id, HttpResponse("a"))
        answer = waiting.result()
    assert answer is not None
    assert answer.content == b"a"
    assert time.monotonic() - start < 5


async def test_a_ticket_is_used_once_over_all_hubs(server, hold_id):
    one, other = (Hub(Waiters(store.url()), secret=releases.SECRET) for _ in range(2))
    text = releases.ticket(hold_id, wait=0.1)
    late = releases.answer("late", 202)
    assert await asyncio.to_thread(in_thread, store_late, text, late)
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": f"/_offload/hold/{text}", "headers": []}
    for hub in (one, other):
        await hub(scope, never, send)
        await hub.waiters.stop()
    assert [message["status"] for message in sent if "status" in message] == [202, 410]


async def test_a_lost_server_is_noticed_and_its_return(server, request, hold_id, caplog):
    if isinstance(server, PostgresServer):
        pytest.skip("the cluster is shared; its own test kills it")
    asked = []

    async def resolve(hold_ids, *, final_only):
        asked.append(hold_ids)
        return {hold_id: releases.answer("from the app")}

    waiters = Waiters(store.url(), resolve=resolve, counts=Counts())
    waiters.start()
    await eventually(lambda: waiters.counts.own[REDIS_UP])
    server.kill()
    assert (await wait(waiters, hold_id)).body == releases.answer("from the app").body
    await waiters.stop()


@only_postgresql
async def test_a_server_that_hangs_is_given_up(server, waiters):
    """psycopg would wait ten seconds more for the end of a query that is cancelled."""
    await waiters.pipe.ask("PING")  # it is connected
    with server.frozen():
        start = time.monotonic()
        with pytest.raises(StoreTrouble):
            await waiters.pipe.ask("PING")
        await eventually(lambda: not waiters.counts.own[REDIS_UP])
        assert time.monotonic() - start < 8


@only_postgresql
async def test_each_answer_has_a_second_of_its_own(server, waiters, monkeypatch):
    """All together had one: large ones were read again and again, and none was given."""
    slow = READ.replace("value", "value || pg_sleep(0.2)::text::bytea")
    monkeypatch.setattr("offload.postgresql.listening.READ", slow)
    # Over 8 KB: PostgreSQL sends no less, as long as there are more.
    answers = {uuid4().hex: b"a" * 10_000 for _ in range(7)}
    rows = [(key, answer, 60) for key, answer in answers.items()]
    assert await asyncio.to_thread(in_thread, store.write, "", rows)
    assert await waiters.pipe.ask("MGET", *answers) == [*answers.values()]


@only_postgresql
async def test_a_host_that_is_dark_leaves_the_next_one_its_time(server):
    with socket.create_server(("127.0.0.1", 0)) as dark:  # it takes connections and says nothing
        host = f"127.0.0.1:{dark.getsockname()[1]}"
        hub = Waiters(server.url.replace("@", f"@{host},"), resolve=None, counts=Counts())
        hub.start()
        await eventually(lambda: hub.counts.own[REDIS_UP])
        await hub.pipe.ask("PING")
        await hub.stop()


async def test_a_name_s_second_address_has_its_time_too(monkeypatch):
    psycopg = pytest.importorskip("psycopg")
    listening = importlib.import_module("offload.postgresql.listening")

    async def connect(*_, connect_timeout, **__):
        await asyncio.sleep(1.5 * connect_timeout)  # the first takes all of its own
        raise psycopg.OperationalError("the second was asked")

    monkeypatch.setattr(listening, "CONNECT_TIMEOUT", 0.2)
    monkeypatch.setattr(psycopg.AsyncConnection, "connect", connect)
    store = listening.PostgresStore("postgresql://two.example/db", print)
    with pytest.raises(psycopg.OperationalError, match="second"):
        await store._connect()


@only_postgresql
def test_a_worker_gives_up_a_server_that_hangs(server, hold_id):
    listening = "SELECT 1 FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'SELECT key%'"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(offload.wait, hold_id, 3)
        until(lambda: server.run(listening))
        with server.frozen():
            outcomes.known[hold_id] = 7
            answer = waiting.result(timeout=15)
    assert answer is not None
    assert answer.content == b'{"final": 7}'


@only_postgresql
def test_a_worker_keeps_to_its_time_where_the_app_hangs_too(server, hold_id, monkeypatch):
    asking = []

    def resolve(*_, **__):
        asking.append(threading.current_thread())
        with connections[ALIAS].cursor() as cursor:
            cursor.execute("SELECT 1")
        return {}

    monkeypatch.setattr(outcomes, "resolve", resolve)
    with server.frozen():
        start = time.monotonic()
        assert offload.wait(hold_id, 2) is None
        assert time.monotonic() - start < 12
    for thread in asking:  # while its connection has a name
        thread.join(20)


@only_postgresql
async def test_a_rolled_back_outcome_is_not_released(server, waiters, hold_id):
    def work():
        with transaction.atomic(using=ALIAS):
            assert offload.release(hold_id, HttpResponse("a"))
            transaction.set_rollback(True, using=ALIAS)

    await asyncio.to_thread(in_thread, work)
    assert await wait(waiters, hold_id, 0.3) is None


@only_postgresql
async def test_an_outcome_is_released_by_its_own_commit(server, waiters, hold_id):
    task = asyncio.create_task(wait(waiters, hold_id))
    await eventually(lambda: hold_id in waiters.waits)

    def work():
        with transaction.atomic(using=ALIAS):
            offload.release(hold_id, HttpResponse("a"))
            time.sleep(0.3)
            assert not task.done()

    await asyncio.to_thread(in_thread, work)
    assert (await task).body == b"a"


@only_postgresql
def test_holds_that_two_release_in_different_orders_are_released(server):
    """Each waited for the other's row, until PostgreSQL ended one of them after a second."""
    first, middle, last = sorted(uuid4().hex for _ in range(3))

    def release(*hold_ids):
        return in_thread(offload.release_many, {each: HttpResponse("a") for each in hold_ids})

    with ThreadPoolExecutor(2) as pool:
        with transaction.atomic(using=ALIAS):
            offload.release(middle, HttpResponse("a"))
            released = [
                pool.submit(release, *ids) for ids in ((first, middle, last), (last, middle, first))
            ]
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            until(lambda: len(server.run(waiting)) == 2)
        assert [each.result() for each in released] == [True, True]


@needs_postgresql
def test_expired_rows_are_deleted_as_fast_as_answers_are_written(postgresql, monkeypatch):
    old = "SELECT 'old' || n, ''::bytea, now() - interval '1 s' FROM generate_series(1, 450) n"
    postgresql.run("DELETE FROM offload_store")  # other tests' rows expire, too
    postgresql.run(f"INSERT INTO offload_store {old}")
    monkeypatch.setattr("random.random", lambda: 0.5)
    left = "SELECT 1 FROM offload_store WHERE key LIKE 'old%'"
    offload.release_many({uuid4().hex: HttpResponse("a") for _ in range(50)})
    assert postgresql.run(left)
    offload.release_many({uuid4().hex: HttpResponse("a") for _ in range(51)})
    assert not postgresql.run(left)


@needs_postgresql
def test_trouble_with_the_table_does_not_end_the_caller_s_transaction(postgresql, hold_id):
    postgresql.run("ALTER TABLE offload_store RENAME TO elsewhere")
    try:
        with transaction.atomic(using=ALIAS):
            assert offload.release(hold_id, HttpResponse("a")) is False
            with connections[ALIAS].cursor() as cursor:
                cursor.execute("SELECT 1")
    finally:
        postgresql.run("ALTER TABLE elsewhere RENAME TO offload_store")
        store._paused_until = 0.0


@needs_postgresql
async def test_a_crash_empties_the_store_and_the_app_is_asked(tmp_path_factory, hold_id):
    server = PostgresServer(tmp_path_factory.mktemp("crashed"))
    server.run(importlib.import_module(MIGRATION).CREATE)

    async def resolve(hold_ids, *, final_only):
        return {hold_id: releases.answer("from the app")}

    waiters = Waiters(server.url, resolve=resolve, counts=Counts())
    try:
        waiters.start()
        await eventually(lambda: waiters.counts.own[REDIS_UP])
        await asyncio.to_thread(server.kill)
        assert (await wait(waiters, hold_id, 10)).body == releases.answer("from the app").body
    finally:
        await waiters.stop()
        server.process.end()
