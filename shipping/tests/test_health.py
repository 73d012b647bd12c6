"""/readyz asks the database once a second at most."""

from typing import Any

import pytest
from django.db import Error, InterfaceError, OperationalError, ProgrammingError
from django.test import Client

from shipping import health


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> health.Database:
    fresh = health.Database()
    monkeypatch.setattr(health, "DATABASE", fresh)
    return fresh


@pytest.mark.django_db
def test_many_questions_are_one_query(
    client: Client, database: health.Database, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        assert {client.get("/readyz").status_code for _ in range(50)} == {200}


def test_an_answer_ages(
    client: Client, database: health.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, answers = 100.0, [True, False, True]
    monkeypatch.setattr(health, "monotonic", lambda: now)
    monkeypatch.setattr(health, "_has_tables", lambda: answers.pop(0))
    statuses = []
    for now in (100.0, 100.9, 101.0, 101.9, 102.0):  # noqa: B007 # the clock above reads it
        statuses.append(client.get("/readyz").status_code)
    assert statuses == [200, 200, 503, 503, 200]


# A missing table is the first of them on SQLite, the last on PostgreSQL.
@pytest.mark.parametrize("trouble", [OperationalError, InterfaceError, ProgrammingError])
def test_a_database_that_is_away_or_empty_is_a_503(
    trouble: type[Error], client: Client, database: health.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cursor() -> None:
        raise trouble

    monkeypatch.setattr(health.connection, "cursor", cursor)
    assert client.get("/readyz").status_code == 503


@pytest.mark.parametrize(("seconds", "said"), [(0.5, True), (1.5, False)])
def test_the_last_answer_is_given_for_a_second_while_a_question_hangs(
    seconds: float, said: bool, database: health.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Balancers take a host away after two failures in a row: a silent database has to be one."""
    now, answers = 100.0, []
    monkeypatch.setattr(health, "monotonic", lambda: now)
    monkeypatch.setattr(health, "_has_tables", lambda: True)
    assert database.answers()
    now += 60

    def hang() -> bool:
        nonlocal now
        now += seconds  # another request comes while this one asks
        answers.append(database.answers())
        return False

    monkeypatch.setattr(health, "_has_tables", hang)
    assert not database.answers()
    assert answers == [said]
