"""Our own credentials: each carrier is shown its own, by calls and by probes."""

from typing import Any

import pytest

from carriers import registry, transport
from carriers.outcomes import Answered
from parcels.services import carrier_guards
from parcels.services.announcement_sql import calls_about
from parcels.services.call_and_wait import job_for
from parcels.tests.factories import AnnouncementFactory

OURS = {"postnl": {"api_key": "p"}, "colibri": {"api_key": "c"}}


@pytest.mark.django_db
@pytest.mark.parametrize("code", OURS)
def test_a_call_takes_those_of_its_carrier(code: str, settings: Any) -> None:
    settings.HOUSE_CREDENTIALS = OURS
    row = AnnouncementFactory.create(parcel__carrier=code)
    job = job_for(calls_about().get(pk=row.pk))
    assert job is not None
    assert job.consignment.credentials == OURS[code]


@pytest.mark.parametrize("code", OURS)
def test_a_probe_takes_those_of_its_carrier(
    code: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HOUSE_CREDENTIALS = OURS
    shown: list[Any] = []
    monkeypatch.setattr(registry.CARRIERS[code], "probe", shown.append)
    monkeypatch.setattr(transport, "perform", lambda *_: Answered())
    carrier_guards.probe(carrier_guards.guards_of(code), "token")
    assert shown == [OURS[code]]
