from __future__ import annotations

import pytest
from django.core.management import call_command

from parcels.models import Announcement, State
from parcels.services.claim import claim_unknown
from parcels.services.clock import DatabaseNow
from parcels.tests.factories import AnnouncementFactory

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("state", [State.PENDING, State.ANNOUNCING])
def test_what_waits_is_looked_up_first(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    AnnouncementFactory(state=state, fence=3, lease_until=DatabaseNow(60))
    call_command("after_restore")
    assert "1 announcements will be looked up" in capsys.readouterr().out
    waiting = Announcement.objects.get()
    assert (waiting.state, waiting.fence, waiting.lease_until) == (State.UNKNOWN, 4, None)
    assert waiting.sent_at is not None
    assert claim_unknown(waiting.pk) is not None


@pytest.mark.parametrize("state", sorted(set(State.values) - {"pending", "announcing"}))
def test_the_rest_stays_as_it_is(state: str) -> None:
    AnnouncementFactory(state=state)
    before = Announcement.objects.values().get()
    call_command("after_restore")
    assert Announcement.objects.values().get() == before
