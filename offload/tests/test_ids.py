"""What a stranger gives as account and hold id: a primary key, a UUID in any of its forms."""

import time
import uuid
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

import offload
from offload.keys import CLIENT
from offload.middleware import OffloadMiddleware
from offload.protocol import Client

ID = uuid.UUID("12345678-1234-4234-8234-123456789abc")


def held(response):
    request: Any = RequestFactory().get("/")
    client = request.META[CLIENT] = Client(time.monotonic())  # as HoldMiddleware does
    OffloadMiddleware(lambda _: response)(request)
    assert client.hold is not None
    return client.hold


@pytest.mark.parametrize("hold_id", [ID, str(ID), ID.hex], ids=["UUID", "str", "hex"])
def test_a_hold_id_in_any_of_its_forms(offload_settings, hold_id):
    offload_settings(BACKEND="asgi")
    assert held(offload.hold(hold_id, late=HttpResponse())).hold_id == ID.hex


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
    assert held(offload.hold(ID, late=HttpResponse(), account=account)).account == str(account)
