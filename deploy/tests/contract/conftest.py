"""Starts each strategy once, on a database that was prepared once."""

import fcntl
import json
import os
import subprocess
from contextlib import suppress

import pytest

from deploy.env_file import read_env_file
from deploy.plan import make_plan
from deploy.prepare import prepare
from deploy.stack import INHERITED, Stack
from deploy.strategy import load, names, why_unavailable
from deploy.tests.contract.deployment import Deployment
from deploy.tests.fixtures import absent

# Seconds that Tortoise Post takes: long enough to be seen waiting, short enough for 15 strategies.
LATENCY = 0.5

ENVIRONMENT = {
    "SIMULATOR_LATENCY_TORTOISE": str(LATENCY),
    # A thousand holds are a thousand calls: neither the worker nor the bulkhead may queue them.
    "WORKER_CONCURRENCY": "1000",
    "CARRIER_BULKHEAD": "2000",
    # By process: clients whose hang-up is not noticed yet count, too.
    "OFFLOAD_MAX_HOLDS_PER_ACCOUNT": "2000",
    # A busy machine may be slow: that alone makes no answer a late one.
    "WAIT_DEFAULT": "110",
    "LOG_LEVEL": "WARNING",
}


class Prepared:
    """A migrated database with its accounts, to be copied for each strategy."""

    def __init__(self, postgresql, folder):
        self.postgresql = postgresql
        self.folder = folder
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        url = postgresql.create_database("contract_template")
        plan = make_plan(
            load("runserver"),
            run_dir=folder,
            database_url=url,
            redis_url="redis://127.0.0.1:1/0",
            inherited=inherited,
        )
        prepare(plan)
        secrets = read_env_file(folder / "secrets.env")
        self.environment = {**secrets, "ACCOUNTS_FILE": plan.environment["ACCOUNTS_FILE"]}

    def copy(self, name):
        """Return the address of a fresh copy."""
        database = f"contract_{name.replace('-', '_')}"
        server = self.postgresql
        self.psql(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')
        self.psql(f'CREATE DATABASE "{database}" TEMPLATE contract_template')
        return server.url_of(database)

    def psql(self, statement):
        program = str(self.postgresql.programs / "psql")
        command = [program, "-X", "-q", self.postgresql.url, "-c", statement]
        subprocess.run(command, check=True, capture_output=True, cwd="/")


@pytest.fixture(scope="session")
def prepared(postgresql, tmp_path_factory):
    return Prepared(postgresql, tmp_path_factory.mktemp("prepared"))


class FirstAnswers:
    """What the first strategy answered to each case; files, since other processes compare, too."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def agree(self, case, name, answer):
        """Return (name, answer) of whoever was first to answer this case: perhaps these."""
        own = self.folder / f"{case} {name}"
        first = self.folder / case
        own.write_text(json.dumps([name, answer]))
        with suppress(FileExistsError):
            os.link(own, first)
        return json.loads(first.read_text())


@pytest.fixture(scope="session", params=names())
def deployment(request, prepared, tmp_path_factory):
    """Return the running strategy; the next one starts when all tests of this one are done."""
    strategy = load(request.param)
    if reason := why_unavailable(strategy):
        absent(strategy.name, reason)
    with Stack(
        strategy,
        database=prepared.copy(strategy.name),
        env={**ENVIRONMENT, **prepared.environment},
        run_dir=tmp_path_factory.mktemp(strategy.name),
        commands=(),
        # What is still under way at the end was somebody's hanging test.
        stop_seconds=5,
    ) as stack:
        yield Deployment(stack)


@pytest.fixture
def shop(deployment):
    return deployment.shop


@pytest.fixture(scope="session")
def shared_folder(request, tmp_path_factory):
    """Return a folder that all processes of this run have in common."""
    base = tmp_path_factory.getbasetemp()
    # xdist's processes have folders of their own below the run's.
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture(scope="session")
def first_answers(shared_folder):
    return FirstAnswers(shared_folder / "first-answers")


@pytest.fixture
def one_at_a_time(shared_folder):
    """Wait until no other process tests this: three times a thousand holds are another test."""
    with (shared_folder / "one-at-a-time").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(autouse=True)
def all_processes_run(deployment):
    """Begin each test with all processes running, whatever the last one did to them."""
    deployment.stack.start()
