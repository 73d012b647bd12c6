"""What announcing costs the database in the good case."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from carriers import transport
from carriers.outcomes import Announced, Document
from parcels.models import State
from parcels.services.announce import announce
from parcels.tests.factories import PDF, AnnouncementFactory


@pytest.mark.django_db
def test_the_statements_of_a_label_in_the_worker(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    """As many as before the mends of announcing (commit 5392665): claim, parcel, contract, guard,
    BEGIN, announcement, document, parcel, endpoint?, attempt, COMMIT, holds."""

    def perform(steps: Any, *_: Any, **__: Any) -> Announced:
        steps.close()
        return Announced("c-1", "3S1", Decimal(1), (Document("label", "pdf", PDF),))

    monkeypatch.setattr(transport, "perform", perform)
    row = AnnouncementFactory.create()
    with (
        CaptureQueriesContext(connection) as made,
        django_capture_on_commit_callbacks(execute=True),
    ):
        announce(row.pk)
    row.refresh_from_db()
    assert row.state == State.ANNOUNCED
    assert len(made) == 12
