"""Change every secret under load, as docs/operations.md says it: no client may notice."""

import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
import requests

from deploy import strategy as strategies
from deploy.plan import ROOT
from deploy.stack import Stack
from deploy.tests.fixtures import absent
from deploy.tests.test_backup import PARCEL
from deploy.tests.waiting import descendants, until

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(2400)]

STRATEGY = "nginx-accel"  # a hub, a front, and an app that asks the hub and is asked
OLD = {"secret_key": "a" * 60, "offload_secret": "b" * 60}
NEW = {"secret_key": "c" * 60, "offload_secret": "d" * 60}
ENV = {"SIMULATOR_LATENCY_POSTNL": "0.5", "WORKER_CONCURRENCY": "20"}
CLIENTS = 4
# Seconds: a machine that tests much else at once loads Django slowly.
PATIENCE = 300
CONTRACT = """
from parcels.models import Account, ApiKey, CarrierContract
for account in Account.objects.all():
    keys = {"api_key": "s", "username": "s", "password": "s"}
    CarrierContract.objects.create(account=account, carrier="postnl", credentials=keys)
ApiKey.objects.update(digest="")  # as they were stored before
"""


class Secrets:
    """The files that all processes read their secrets from."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()

    def write(self, first, *fallbacks):
        for name, value in first.items():
            (self.folder / name).write_text(value + "\n")
            former = [each[name] + "\n" for each in fallbacks]
            (self.folder / f"{name}_fallbacks").write_text("".join(former))

    def environment(self):
        names = [f"{name}{kind}" for name in OLD for kind in ("", "_fallbacks")]
        return {f"{name.upper()}_FILE": str(self.folder / name) for name in names}


class Client(threading.Thread):
    """A shop that orders labels one after another, and notes each answer."""

    def __init__(self, stack, keys):
        super().__init__(daemon=True)
        self.url = f"{stack.base_url}/api/v2/parcels"
        self.keys = keys
        self.session = requests.Session()
        self.session.trust_env = False
        self.answers = Counter[int | str]()
        self.ended = threading.Event()

    def run(self):
        body = {"parcel": {**PARCEL, "request_label": True, "shipment": {"id": 8}}}
        while not self.ended.is_set():
            try:
                answer = self.session.post(self.url, json=body, auth=self.keys, timeout=120)
                self.answers[answer.status_code] += 1
            except requests.RequestException as error:
                self.answers[type(error).__name__] += 1


def manage(stack, *arguments):
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env={**os.environ, **stack.env},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def exchange_workers(stack):
    """Have uWSGI load the app anew in one worker after another, and wait until all have."""
    before = descendants(stack.pid("web"))
    Path(stack.env["RUN_DIR"], "reload").touch()
    until(lambda: not before & descendants(stack.pid("web")), "new web workers", PATIENCE)
    stack.wait_ready("web")


def roll(stack):
    """Have every process read its secrets again, as a release does."""
    for name in ("hub", "worker", "sweeper"):
        stack.restart(name)
    exchange_workers(stack)


def rotate_account_key(stack, clients):
    """Give the first shop a second key pair, let it change over, and end its first."""
    (account,) = column(stack, "SELECT account_id FROM parcels_apikey ORDER BY id LIMIT 1")
    printed = manage(stack, "rotate_key", str(account))
    pair = dict(line.split("=") for line in printed.split())
    for client in clients:
        client.keys = (pair["PUBLIC_KEY"], pair["SECRET_KEY"])
    done = [sum(client.answers.values()) for client in clients]
    # The request that was under way, and one with the new key.
    until(
        lambda: all(
            sum(client.answers.values()) >= before + 2
            for client, before in zip(clients, done, strict=True)
        ),
        "answers to the new key",
        PATIENCE,
    )
    manage(stack, "rotate_key", str(account), "--revoke", stack.public_key)


def column(stack, sql):
    with closing(sqlite3.connect(Path(stack.env["RUN_DIR"], "db.sqlite3"), timeout=60)) as database:
        return [value for (value,) in database.execute(sql)]


def states(stack):
    return set(column(stack, "SELECT DISTINCT state FROM parcels_announcement"))


def answered(clients):
    return sum((client.answers for client in clients), Counter())


@pytest.fixture
def secrets(tmp_path):
    return Secrets(tmp_path / "secrets")


@pytest.fixture
def stack(secrets):
    if reason := strategies.why_unavailable(strategies.load(STRATEGY)):
        absent(STRATEGY, reason)
    secrets.write(OLD)
    with Stack(STRATEGY, env={**ENV, **secrets.environment()}, ready_seconds=PATIENCE) as stack:
        manage(stack, "shell", "-v0", "-c", CONTRACT)
        yield stack


def test_every_secret_is_changed_without_a_failed_request(stack, secrets):
    first = (stack.public_key, stack.secret_key)
    second = (stack.accounts["PUBLIC_KEY_2"], stack.accounts["SECRET_KEY_2"])
    clients = [Client(stack, keys) for keys in (first, second) for _ in range(CLIENTS // 2)]
    for client in clients:
        client.start()
    until(lambda: answered(clients)[200] > CLIENTS, "labels before", PATIENCE)
    secrets.write(OLD, NEW)
    roll(stack)
    rotate_account_key(stack, clients[: CLIENTS // 2])
    secrets.write(NEW, OLD)
    roll(stack)
    assert "2 carrier contracts" in manage(stack, "reencrypt")
    secrets.write(NEW)
    roll(stack)
    before = answered(clients)[200]
    until(lambda: answered(clients)[200] > before + CLIENTS, "labels after", PATIENCE)
    for client in clients:
        client.ended.set()
    for client in clients:
        client.join(PATIENCE)
    answers = answered(clients)
    print(f"\nanswers: {dict(answers)}")
    assert set(answers) <= {200, 202}, answers
    until(lambda: states(stack) == {"announced"}, "every label", PATIENCE)
    # The control: who was not told of a new secret misses it.
    secrets.write({"secret_key": "e" * 60, "offload_secret": "f" * 60})
    stack.restart("worker")
    clients[0].session.post(
        clients[0].url,
        json={"parcel": {**PARCEL, "request_label_async": True, "shipment": {"id": 8}}},
        auth=second,
        timeout=PATIENCE,
    )
    until(lambda: "can't be prepared" in stack.log("worker"), "a contract not read", PATIENCE)
