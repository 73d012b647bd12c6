"""pytest's share of the stores: real ones on free ports, and closed sockets in unit tests."""

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from deploy.stores import (
    POSTGRESQL_INSTALL,
    REDIS_INSTALL,
    PostgresServer,
    RedisServer,
    StoreMissingError,
)

# Read when pytest-django loads the settings: tests run with development's, without secrets to set.
os.environ.setdefault("DEBUG", "1")

OPEN_MARKERS = ("integration", "deployment")
INTERNET = (socket.AF_INET, socket.AF_INET6)


class SocketClosedError(RuntimeError):
    """A unit test tried to connect to somewhere."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep each file's tests together where several processes share them (`-n 2`).

    Many files share one deployment. A test that belongs elsewhere says so by a group of its own.
    """
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


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
