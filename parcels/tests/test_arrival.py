"""A client's wait counts from its request's arrival, not from the view's beginning."""

from time import monotonic
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from rest_framework.request import Request

from offload.keys import CLIENT
from offload.middleware import OffloadMiddleware
from offload.protocol import Client
from parcels.models import Account, Hold
from parcels.services.holds import Asked, wait_for
from parcels.tests.factories import ParcelFactory
from parcels.views.request import asked

QUEUED = 4.0


def ask(account: Account, *, noted: bool = True, wait: float = 10) -> Asked:
    """Return how a client asked that queued for QUEUED seconds."""
    request = RequestFactory().post("/api/v2/parcels")
    request.scope = {CLIENT: Client(monotonic() - QUEUED)}  # type: ignore[attr-defined] # as ASGIRequest
    if noted:
        OffloadMiddleware(lambda _: HttpResponse())(request)
    wrapped = Request(request)
    wrapped.user = account  # type: ignore[assignment] # as our authentication sets it
    return asked(wrapped, wait=wait)


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [("wait=7", 7), ("wait=9999999", 120), ("Wait=7;x, wait=8", 7), ("wait=-1", 55), ("", 55)],
)
def test_a_preference_is_for_the_maximum_at_most(
    account: Account, settings: Any, prefer: str, seconds: float
) -> None:
    settings.WAIT_DEFAULT, settings.WAIT_MAXIMUM = 55, 120
    request = Request(RequestFactory().post("/api/v2/parcels", headers={"Prefer": prefer}))
    request.user = account  # type: ignore[assignment] # as above
    assert asked(request).seconds == seconds


@pytest.mark.parametrize("prefer", ["respond-async, wait=7", "wait=7, Respond-Async"])
def test_both_preferences_are_an_answer_without_the_label_after_the_wait(
    account: Account, prefer: str
) -> None:
    """The example of RFC 7240, 4.3."""
    request = Request(RequestFactory().post("/api/v2/parcels", headers={"Prefer": prefer}))
    request.user = account  # type: ignore[assignment] # as above
    how = asked(request)
    assert (how.respond_async, how.seconds, how.question.preferred) == (False, 7, "wait=7")


@pytest.mark.parametrize(("noted", "left"), [(True, 6.0), (False, 10.0)])
def test_what_it_queued_for_is_taken_off(account: Account, noted: bool, left: float) -> None:
    # Without the note, the control: it would wait for ten seconds more.
    assert ask(account, noted=noted).until - monotonic() == pytest.approx(left, abs=0.5)


def test_who_queued_for_longer_than_it_waits_has_nothing_left(account: Account) -> None:
    parcel = ParcelFactory.create(account=account)
    parcel.refresh_from_db()
    how = ask(account, wait=2)
    assert wait_for(how, how.question, Hold(account=account), [parcel]).status_code == 202
