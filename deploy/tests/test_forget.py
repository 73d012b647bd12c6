"""A receiver is forgotten: then nothing in database, Redis, files or logs has a word of it."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import redis
import requests

from deploy import strategy as strategies
from deploy.plan import ROOT
from deploy.stack import Stack
from deploy.tests.fixtures import absent
from deploy.tests.test_backup import PARCEL
from deploy.tests.waiting import until

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(1200)]

STRATEGY = "nginx-accel"  # its late answers are in Redis
ENV = {"WORKER_CONCURRENCY": "20", "WEB_WORKERS": "1", "LOG_LEVEL": "DEBUG"}
MARK = "quaxolotl"
EMAIL = f"{MARK}@mail.example"
RECEIVER = {**PARCEL, "name": MARK, "address": f"{MARK}straat", "email": EMAIL, "note": MARK}
# The carriers' own books, and the database's file: it has what was deleted until it is overwritten.
NOT_OURS = {"ledger.jsonl", "db.sqlite3", "db.sqlite3-wal", "db.sqlite3-shm"}
# Seconds: the wait and half a minute, and a busy machine takes as long to start Django.
PATIENCE = 300


@pytest.fixture
def stack():
    if reason := strategies.why_unavailable(strategies.load(STRATEGY)):
        absent(STRATEGY, reason)
    with Stack(STRATEGY, env=ENV, ready_seconds=PATIENCE) as stack:
        yield stack


def in_database(stack):
    path = Path(stack.env["RUN_DIR"], "db.sqlite3")
    with closing(sqlite3.connect(path, timeout=60)) as database:
        dump = "\n".join(database.iterdump()).lower()
    return [text for text in (MARK, MARK.encode().hex()) if text in dump]


def in_redis(stack):
    readers = {b"list": ("LRANGE", 0, -1), b"set": ("SMEMBERS",), b"zset": ("ZRANGE", 0, -1)}
    readers |= {b"hash": ("HGETALL",), b"string": ("GET",)}
    with redis.Redis.from_url(stack.env["REDIS_URL"]) as client:
        kinds = {key: client.type(key) for key in client.scan_iter()}
        values = {
            key: client.execute_command(readers[kind][0], key, *readers[kind][1:])
            for key, kind in kinds.items()
            if kind in readers
        }
    return [key for key, value in values.items() if MARK in repr((key, value)).lower()]


def in_files(stack):
    paths = [path for path in Path(stack.env["RUN_DIR"]).rglob("*") if path.is_file()]
    return {path.name for path in paths if MARK.encode() in path.read_bytes().lower()}


def forget(stack):
    """Run the command; return whether it has done all. It names nobody."""
    done = subprocess.run(
        [sys.executable, "manage.py", "forget", "1", "--email", EMAIL],
        cwd=ROOT,
        env={**stack.env, "LOG_LEVEL": "WARNING"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0 or "run it again" in done.stderr, done.stderr
    assert MARK not in done.stdout + done.stderr
    return done.returncode == 0


def test_nothing_has_a_word_of_a_forgotten_receiver(stack):
    wish = {"request_label": True, "shipment": {"id": 8}}
    orders = [{**RECEIVER, **wish}, {**RECEIVER, "name": "", **wish}]
    with requests.Session() as shop:
        shop.trust_env = False
        shop.auth = (stack.public_key, stack.secret_key)
        answer = shop.post(
            f"{stack.base_url}/api/v2/parcels?errors=verbose",
            json={"parcels": orders},
            headers={"Idempotency-Key": "batch", "Prefer": "wait=45"},
            timeout=PATIENCE,
        )
        assert answer.status_code == 200, answer.text
        assert in_database(stack) == [MARK, MARK.encode().hex()]  # the second: in the label
        assert any(b"answer" in key for key in in_redis(stack))
        assert in_files(stack) & NOT_OURS
        assert not forget(stack)
        until(lambda: forget(stack), "the end of its wait", PATIENCE)
        number = answer.json()["parcels"][0]["id"]
        shown = shop.get(f"{stack.base_url}/api/v2/parcels/{number}", timeout=60).json()["parcel"]
    assert shown["tracking_number"] == answer.json()["parcels"][0]["tracking_number"] != ""
    assert in_database(stack) == []
    assert in_redis(stack) == []
    assert in_files(stack) <= NOT_OURS
