import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command

from parcels.management.commands.sweeper import Sweeper
from parcels.models import (
    Announcement,
    Attempt,
    Brand,
    FeedCursor,
    State,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services import restored
from parcels.services.claim import claim
from parcels.services.clock import DatabaseNow
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory
from parcels.tests.requests import Shop

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("state", [State.PENDING, State.ANNOUNCING, State.UNKNOWN])
def test_what_waits_is_looked_up_first(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    AnnouncementFactory(state=state, fence=3, lease_until=DatabaseNow(60))
    call_command("after_restore")
    assert "1 announcements will be looked up" in capsys.readouterr().out
    waiting = Announcement.objects.get()
    assert (waiting.state, waiting.fence, waiting.lease_until) == (State.UNKNOWN, 4, None)
    assert waiting.sent_at is not None
    assert waiting.call_ended_at is not None
    assert waiting.call_ended_at > waiting.sent_at
    assert claim([waiting.pk], State.UNKNOWN)


@pytest.mark.parametrize("state", sorted(set(State.values) - {"pending", "announcing", "unknown"}))
def test_the_rest_stays_as_it_is(state: str) -> None:
    AnnouncementFactory(state=state)
    before = Announcement.objects.values().get()
    call_command("after_restore")
    assert Announcement.objects.values().get() == before


@pytest.mark.parametrize(("seconds", "state"), [(60, State.ANNOUNCING), (-1, State.UNKNOWN)])
def test_a_call_under_way_is_left_to_its_worker(seconds: int, state: State) -> None:
    AnnouncementFactory(
        state=State.ANNOUNCING, sent_at=DatabaseNow(), lease_until=DatabaseNow(seconds)
    )
    call_command("after_restore")
    assert Announcement.objects.get().state == state


def test_ids_that_were_issued_after_the_backup_are_not_issued_again(shop: Shop) -> None:
    def issue() -> list[int]:
        parcel = LabelledParcelFactory.create(account=shop.account)
        endpoint = WebhookEndpoint.objects.create(account=shop.account, url="https://a.b/")
        event = WebhookEvent.objects.create(account=shop.account, parcel=parcel, status=1000)
        delivery = WebhookDelivery.objects.create(event=event, endpoint=endpoint)
        row = AnnouncementFactory.create(parcel=parcel)
        attempt = Attempt.objects.create(announcement=row, fence=1, outcome="unknown")
        return [each.pk for each in (parcel, endpoint, delivery, attempt)]

    issued = issue()
    for _ in range(2):
        call_command("after_restore")
        again = issue()
        assert all(new > old + 1_000_000 for new, old in zip(again, issued, strict=True))
        issued = again
    # None was there in the backup.
    assert Brand.objects.create(account=shop.account, name="Shop").pk > 1_000_000


def test_the_sweeper_distrusts_a_database_with_another_timeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sweeper = Sweeper()
    monkeypatch.setattr("parcels.management.commands.sweeper.broker_identity", lambda: None)
    states = []
    for seen in ("00000001", "00000001", "00000002"):
        monkeypatch.setattr(restored, "timeline", lambda seen=seen: seen)
        before = AnnouncementFactory.create(carrier="postnl").parcel_id
        sweeper._notice_new_timeline()
        states.append(set(Announcement.objects.values_list("state", flat=True)))
    sweeper.end()
    assert states == [{State.PENDING}, {State.PENDING}, {State.UNKNOWN}]
    # Rows that are lost may have had the next ids, and clients still have those.
    assert AnnouncementFactory.create().parcel_id > before + 1_000_000


def test_a_sweeper_that_was_restarted_meanwhile_notices_another_timeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that waited for its database for two minutes, or was on the primary's machine."""
    AnnouncementFactory(carrier="postnl")
    fences = []
    for seen in ("00000001", "0000000A", "0000000A"):
        monkeypatch.setattr(restored, "timeline", lambda seen=seen: seen)
        sweeper = Sweeper()
        sweeper._notice_new_timeline()
        sweeper.end()
        fences.append(Announcement.objects.get().fence)
    assert fences == [0, 1, 1]
    assert Announcement.objects.get().state == State.UNKNOWN


@pytest.mark.parametrize("restarted", [False, True])
def test_a_database_that_lost_the_trusted_timeline_is_distrusted(
    monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    """Its row was among the commits that the promoted one lacks, or is younger than the backup."""
    AnnouncementFactory(carrier="postnl")
    sweeper = Sweeper()
    for seen in ("00000001", "00000002"):
        monkeypatch.setattr(restored, "timeline", lambda seen=seen: seen)
        sweeper._notice_new_timeline()
        FeedCursor.objects.filter(name=restored.TRUSTED).delete()
        if restarted:
            sweeper.end()
            sweeper = Sweeper()
    sweeper.end()
    assert Announcement.objects.get().state == State.UNKNOWN


def test_what_a_restore_has_distrusted_is_not_distrusted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was accepted since has never been sent: at some carriers a person would decide."""
    sweeper = Sweeper()
    for seen in ("00000002", "00000001"):  # the dump's, and that of a new server
        monkeypatch.setattr(restored, "timeline", lambda seen=seen: seen)
        call_command("after_restore")
    AnnouncementFactory(carrier="lantern")
    sweeper._notice_new_timeline()
    sweeper.end()
    assert Announcement.objects.get().state == State.PENDING


HANGS = """
import threading, django
django.setup()
from django.core.management import call_command
from parcels.services import restored
restored.timeline = threading.Event().wait
call_command("sweeper", hung=1.0)
"""


def test_a_round_that_hangs_ends_the_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS],
        cwd=settings.BASE_DIR,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "shipping.settings", "RUN_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "_notice_new_timeline" in done.stderr  # where it hung
