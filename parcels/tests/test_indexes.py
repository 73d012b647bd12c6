"""Indexes: each is written with its row, so none is kept that another one covers."""

from itertools import permutations

import pytest
from django.apps import apps
from django.db import connection

pytestmark = pytest.mark.django_db
CATALOGUE = {
    "postgresql": "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %s",
    "sqlite": "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = %s",
}


def covered() -> list[tuple[str, str]]:
    """Return our indexes whose columns begin another one with the same condition, and that one.

    Also where the other one has another order of text: nothing of ours searches by LIKE.
    """
    found = []
    for model in apps.get_app_config("parcels").get_models(include_auto_created=True):
        table = model._meta.db_table
        with connection.cursor() as cursor:
            known = connection.introspection.get_constraints(cursor, table)
            cursor.execute(CATALOGUE[connection.vendor], [table])
            only = {name: str(sql).partition(" WHERE ")[2] for name, sql in cursor.fetchall()}
        keys = {name: each["columns"] for name, each in known.items()
                if each["index"] or each["unique"] or each["primary_key"]}  # fmt: skip
        found += [
            (one, other)
            for one, other in permutations(keys, 2)
            if not (known[one]["unique"] or known[one]["primary_key"])
            and keys[other][: len(keys[one])] == keys[one]
            and only.get(one, "") == only.get(other, "")
        ]
    return found


def test_no_index_begins_another_one() -> None:
    assert covered() == []


def test_one_that_does_is_found() -> None:
    """The control of the test above, which has nothing to find today."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE INDEX one ON parcels_parcel (account_id)")
        cursor.execute("CREATE INDEX part ON parcels_parcel (account_id) WHERE status = 1")
    assert ("one", "parcel_list") in covered()
    assert "part" not in {one for one, _ in covered()}
