"""Fixtures of the parcels' unit tests: an account, and a shop that calls with its keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from parcels.models import Account
from parcels.services import protect
from parcels.tests.factories import AccountFactory
from parcels.tests.requests import Shop


@pytest.fixture
def account(db: None) -> Account:
    return AccountFactory.create()


@pytest.fixture
def shop(account: Account) -> Shop:
    return Shop(account)


@pytest.fixture
def other_shop(db: None) -> Shop:
    return Shop(AccountFactory.create())


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str]]:
    """Take the broker away, and return what would have been sent to it."""
    sent: list[tuple[str, int, str]] = []

    def note(task: str, announcement_id: int, carrier: str) -> bool:
        sent.append((task, announcement_id, carrier))
        return True

    monkeypatch.setattr("parcels.services.wake.wake", note)
    return sent


@pytest.fixture(autouse=True)
def guards_by_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Have breaker, bulkhead and health count in this process, as they do when Redis is gone."""
    nowhere = redis.Redis(unix_socket_path=str(tmp_path / "redis"), retry=Retry(NoBackoff(), 0))
    protect.forget()
    monkeypatch.setattr(protect, "_client", lambda: nowhere)
    yield
    monkeypatch.undo()
    protect.forget()
