"""Fixtures of the parcels' unit tests: an account, and a shop that calls with its keys."""

from __future__ import annotations

import pytest

from parcels.models import Account
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
