"""A wrong setting is named by a system check, before it is found in an outage."""

from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import connections
from django.db.utils import ConnectionHandler

from carriers.adapters.postnl import PostNL
from deploy.stores import PostgresServer
from shipping.checks import check_synchronous_commit

WRONG = [
    ({"ANNOUNCEMENT_LEASE": 59.0, "CARRIER_CALL_DEADLINE": 30.0}, "shipping.E001"),
    ({"ANNOUNCEMENT_LEASE": 10.0, "CARRIER_CALL_DEADLINE": 5.0}, "shipping.E001"),
    ({"ANNOUNCEMENT_LEASE": 60.0, "CARRIER_CONNECT_TIMEOUT": 20.0}, "shipping.E001"),
    ({"CARRIERS": {"postnl": {"url": "", "bulkhead": 1}}}, "shipping.E002"),
    ({"CARRIERS": {"postnl": {"url": "carrier.example", "bulkhead": 1}}}, "shipping.E002"),
    ({"CARRIERS": {"postnl": {"url": "https://h:no", "bulkhead": 1}}}, "shipping.E002"),
    ({"CARRIERS": {"postnl": {"url": "https://me:key@h", "bulkhead": 1}}}, "shipping.E002"),
    ({"CARRIERS": {"postnl": {"url": "https://bücher.example", "bulkhead": 1}}}, "shipping.E002"),
    ({"TRACKING_FEED_URL": "feed.example:8000"}, "shipping.E002"),
    ({"LABELS_IN": "storage"}, "shipping.E012"),
]


def test_carriers_that_hang_must_leave_threads(settings: Any) -> None:
    def warned() -> bool:
        found = run_checks(include_deployment_checks=True)
        return "shipping.W001" in {message.id for message in found}

    assert not warned()
    settings.WORKER_CONCURRENCY = 2000
    assert warned()


@pytest.mark.integration
@pytest.mark.parametrize("said", ["on", "off"])
def test_a_database_that_forgets_commits_is_named(
    said: str, postgresql: PostgresServer, django_db_blocker: Any
) -> None:
    """As the role would be told: by the options of the connection."""
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "postgres",
        "USER": "postgres",
        "HOST": "127.0.0.1",
        "PORT": postgresql.port,
        "OPTIONS": {"options": f"-c synchronous_commit={said}"},
    }
    connections["asked"] = ConnectionHandler({"default": database, "asked": database})["asked"]
    try:
        with django_db_blocker.unblock():
            found = check_synchronous_commit(databases=["asked"])
    finally:
        connections["asked"].close()
        del connections["asked"]
    assert [message.id for message in found] == ["shipping.W002"] * (said == "off")


def ids() -> set[str | None]:
    return {message.id for message in run_checks()}


@pytest.mark.parametrize(("wrong", "expected"), WRONG)
def test_wrong_settings_are_named(settings: Any, wrong: dict[str, Any], expected: str) -> None:
    for name, value in wrong.items():
        setattr(settings, name, value)
    assert expected in ids()


@pytest.mark.parametrize(("settling", "wrong"), [(29.9, True), (30.0, False)])
def test_a_settling_window_that_ends_before_the_carriers_work_is_named(
    monkeypatch: pytest.MonkeyPatch, settling: float, wrong: bool
) -> None:
    monkeypatch.setattr(PostNL, "settling", settling)
    assert ("shipping.E010" in ids()) is wrong


def test_right_settings_are_not(settings: Any) -> None:
    settings.SECRET_KEY = "x" * 50
    assert not {id_ for id_ in ids() if str(id_).startswith("shipping.E")}
