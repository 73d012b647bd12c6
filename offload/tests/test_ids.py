"""What a stranger gives as account and hold id: a primary key, a UUID in any of its forms."""

import time
import uuid
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

import offload
from offload.keys import ARRIVED_AT
from offload.middleware import OffloadMiddleware
from offload.protocol import make_ticket, read_ticket
from offload.tests.processes import SECRET

ID = uuid.UUID("12345678-1234-4234-8234-123456789abc")


def ticket_of(response):
    request = RequestFactory().get("/")
    request.META[ARRIVED_AT] = time.monotonic()  # as HoldMiddleware does
    answer: Any = OffloadMiddleware(lambda _: response)(request)
    return read_ticket(SECRET, answer["X-Offload-Ticket"], now=time.time())


@pytest.mark.parametrize("hold_id", [ID, str(ID), ID.hex], ids=["UUID", "str", "hex"])
def test_a_hold_id_in_any_of_its_forms(offload_settings, hold_id):
    offload_settings(BACKEND="asgi")
    assert ticket_of(offload.hold(hold_id, late=HttpResponse())).hold_id == ID.hex


@pytest.mark.parametrize("hold_id", [ID, str(ID), ID.hex], ids=["UUID", "str", "hex"])
def test_the_same_forms_release(offload_settings, stored, hold_id):
    offload_settings()
    assert offload.release(hold_id, HttpResponse("a")) is True
    assert list(stored) == [ID.hex]


@pytest.mark.parametrize("hold_id", ["parcel 7", 7, None, "g" * 32, "1" * 31])
def test_what_is_no_hold_id_is_refused_in_the_view(offload_settings, hold_id):
    offload_settings(BACKEND="asgi")
    with pytest.raises(ValueError, match="hold id"):
        offload.hold(hold_id, late=HttpResponse())


@pytest.mark.parametrize("account", [7, ID, "shop"], ids=["int", "UUID", "str"])
def test_an_account_is_any_key(offload_settings, account):
    offload_settings(BACKEND="asgi")
    ticket = ticket_of(offload.hold(ID.hex, late=HttpResponse(), account=account))
    known = read_ticket(
        SECRET,
        make_ticket(SECRET, ID.hex, account=str(account), deadline=time.time() + 1),
        now=time.time(),
    )
    assert ticket.account == known.account != ""
