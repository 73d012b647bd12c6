"""Fixtures of the parcels' unit tests: an account, and a shop that calls with its keys."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone
from redis.backoff import NoBackoff
from redis.retry import Retry

from carriers.outcomes import LookupResult, Outcome, VoidResult
from parcels import unguarded
from parcels.models import Account, Announcement, State, WebhookEndpoint
from parcels.services import carrier_guards, ending, webhooks
from parcels.tests.cancellations import Answers, cancel
from parcels.tests.factories import AccountFactory, AnnouncementFactory, LabelledParcelFactory
from parcels.tests.hooks import TAKEN
from parcels.tests.requests import Shop
from parcels.webhooks.post import Answer
from shipping import authentication


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

    def note(task: str, ids: Sequence[int], queue: str, *_: Any, **__: Any) -> bool:
        sent.extend((task, each, queue.removeprefix("announce.")) for each in ids)
        return True

    monkeypatch.setattr("parcels.services.wake.send", note)
    return sent


@pytest.fixture
def without() -> Iterator[Callable[..., None]]:
    """Return what takes the app's guards away, by their names, until the test ends."""
    with ExitStack() as stack:
        yield lambda *guards: stack.enter_context(unguarded.without(*guards))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes, dict[str, str]]]:
    """Take all that would be POSTed; the answer is 200."""
    taken: list[tuple[str, bytes, dict[str, str]]] = []

    def take(url: str, body: bytes, headers: dict[str, str], **_: Any) -> Answer:
        taken.append((url, body, headers))
        return TAKEN

    monkeypatch.setattr(webhooks, "post", take)
    return taken


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    tasks: list[tuple[str, Any]] = []

    def note(task: str, row_ids: Sequence[Any], queue: str) -> bool:
        tasks.extend((task, each) for each in row_ids)
        return True

    monkeypatch.setattr(webhooks, "send", note)
    monkeypatch.setattr(ending, "send", note)
    return tasks


@pytest.fixture(autouse=True)
def guards_by_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Have breaker, bulkhead and health count in this process, as they do when Redis is gone."""
    nowhere = redis.Redis(unix_socket_path=str(tmp_path / "redis"), retry=Retry(NoBackoff(), 0))
    carrier_guards.forget()
    monkeypatch.setattr(carrier_guards, "_client", lambda: nowhere)
    yield
    monkeypatch.undo()
    carrier_guards.forget()


@pytest.fixture(autouse=True)
def keys_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test change its account, and fail with wrong keys: they share a process."""
    authentication.FAILURES.windows.clear()
    monkeypatch.setattr(authentication, "BELIEVED", 0.0)


@pytest.fixture(autouse=True)
def transactions_outlive_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the connection open while it is in a test's own transaction.

    Services give their connection back before they wait. In production no transaction is open
    then; a test's would be lost with all its rows. SQLite in memory ignores the closing, PostgreSQL
    doesn't. A transaction of the services' own is a bug on both.
    """
    close = BaseDatabaseWrapper.close

    def close_unless_testing(self: BaseDatabaseWrapper) -> None:
        if not self.in_atomic_block:
            close(self)
            return
        ours = [getattr(block, "_from_testcase", False) for block in self.atomic_blocks]
        assert all(ours), "closed inside a transaction"

    monkeypatch.setattr(BaseDatabaseWrapper, "close", close_unless_testing)


@pytest.fixture
def listener(shop: Shop) -> None:
    WebhookEndpoint.objects.create(account=shop.account, url="https://shop.example/hook")


@pytest.fixture
def bought(shop: Shop) -> Announcement:
    """Return the announcement of a parcel whose label was bought."""
    parcel = LabelledParcelFactory.create(account=shop.account)
    return AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED, carrier_id="c-1")


@pytest.fixture
def carrier_says(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Return a function that lays down what the carrier will answer, call by call."""

    def lay_down(*results: VoidResult | LookupResult | Outcome) -> list[Any]:
        calls: list[Any] = []
        left = list(results)

        def perform(steps: Any, *_: Any, **__: Any) -> Any:
            calls.append(steps)
            return left.pop(0)

        monkeypatch.setattr("carriers.transport.perform", perform)
        return calls

    return lay_down


@pytest.fixture
def reviewed(shop: Shop) -> Announcement:
    """Return an announcement under review whose cancellation was asked for."""
    row = AnnouncementFactory.create(
        parcel__account=shop.account, state=State.NEEDS_REVIEW, unknown_since=timezone.now()
    )
    assert cancel(shop, row.parcel) == (202, "queued")
    return row
