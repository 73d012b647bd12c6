"""pytest's share of the stores: real ones on free ports, and closed sockets in unit tests."""

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import hypothesis
import pytest

from deploy.stores import POSTGRESQL_INSTALL, REDIS_INSTALL, PostgresServer, StoreMissingError
from deploy.strategy import names
from deploy.tests.redis_server import RedisServer

# Read when pytest-django loads the settings: tests run with development's, without secrets to set.
os.environ.setdefault("DEBUG", "1")

# By default an example of 200 ms is a failure: a busy machine, and no defect.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)

OPEN_MARKERS = ("integration", "deployment")
INTERNET = (socket.AF_INET, socket.AF_INET6)


class SocketClosedError(RuntimeError):
    """A unit test tried to connect to somewhere."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep what shares a deployment in one process, where several share the tests (`-n 2`).

    xdist's own `loadgroup` writes a test's group into its name (3.8.0), which pytest 9.2 ignores.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByDeployment(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return deployment_of(nodeid)

    config.option.loadscopereorder = False  # by number of tests: see below
    return ByDeployment(config, log)


# What takes longest comes first: at the end the other processes would have nothing to do.
LONGEST = ("loadtests/faults/", "deploy/tests/contract/", "deploy/", "loadtests/")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest first, where several processes share the tests."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: [not item.nodeid.startswith(path) for path in LONGEST])


def deployment_of(nodeid: str) -> str:
    """Return what a test shares with others: its strategy in the contract suite, else its file."""
    file, _, parameters = nodeid.partition("[")
    if file.startswith("deploy/tests/contract/"):
        own = [name for name in names() if parameters.startswith((f"{name}-", f"{name}]"))]
        return max(own, key=len, default=file)
    return file.partition("::")[0]


def absent(component: str, install: str) -> NoReturn:
    """Skip the test with the line that installs what it needs; under CI=true fail it."""
    reason = f"{component} is not installed here; {install}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """Return a running Redis; tests that share it leave each other's keys alone."""
    try:
        server = RedisServer()
    except StoreMissingError:
        absent("redis-server", REDIS_INSTALL)
    with server:
        yield server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """Return a running PostgreSQL cluster; each test makes a database of its own in it."""
    try:
        server = PostgresServer()
    except StoreMissingError:
        absent("postgresql", POSTGRESQL_INSTALL)
    with server:
        yield server


@pytest.fixture(autouse=True)
def closed_sockets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections (loopback, too) in every test that is not marked to make them.

    Guards Python's sockets. What connects from C by itself (libpq, uvloop) isn't seen.
    """
    if any(request.node.get_closest_marker(marker) for marker in OPEN_MARKERS):
        return
    for method in ("connect", "connect_ex"):
        original = getattr(socket.socket, method)
        monkeypatch.setattr(socket.socket, method, _refusing(original))


def _refusing(original: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(connection: socket.socket, address: Any) -> Any:
        if connection.family in INTERNET:
            raise SocketClosedError(
                f"a unit test may not connect to {address}: replace what does, or mark the test "
                "with @pytest.mark.integration"
            )
        return original(connection, address)

    return refuse
