"""The page that a shop's customer follows a parcel on: no password, no personal data."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from parcels.models import Parcel, TrackingEvent
from parcels.representation import tracking_url
from parcels.tests.factories import LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop

pytestmark = pytest.mark.django_db


@pytest.fixture
def parcel(shop: Shop) -> Parcel:
    parcel = LabelledParcelFactory.create(
        account=shop.account, name="Ada Example", company_name="Kade", telephone="030-1"
    )
    at = timezone.now()
    TrackingEvent.objects.create(
        parcel=parcel, carrier="postnl", status=22, message="with Mrs Jansen at 14", at=at
    )
    return parcel


def path_of(parcel: Parcel) -> str:
    return tracking_url(parcel, "")


def test_a_tracking_url_opens_without_keys(shop: Shop, parcel: Parcel, client: Client) -> None:
    url = shop.get(f"parcels/{parcel.pk}").json()["parcel"]["tracking_url"]
    answer = client.get(url)
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/html")
    text = answer.content.decode()
    for shown in (parcel.tracking_number, "Shipment picked up by driver", "Ready to send"):
        assert shown in text
    assert text.rindex("Shipment picked up") < text.rindex("Ready to send")
    tracking = shop.get(f"tracking/{parcel.tracking_number}").json()
    assert tracking["sendcloud_tracking_url"] == tracking["carrier_tracking_url"] == url


def test_it_has_no_personal_data(shop: Shop, parcel: Parcel, client: Client) -> None:
    text = client.get(path_of(parcel)).content.decode()
    personal = [parcel.name, parcel.company_name, parcel.address, parcel.city, parcel.postal_code]
    # A carrier's own words may name whoever took the parcel in.
    for word in (*personal, parcel.email, parcel.telephone, "Jansen", shop.account.name):
        assert word not in text


def test_no_machine_keeps_it(parcel: Parcel, client: Client) -> None:
    answer = client.get(path_of(parcel))
    assert answer["X-Robots-Tag"] == "noindex, nofollow"
    assert "no-store" in answer["Cache-Control"]
    assert answer["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize(
    "token", ["{id}", "{id}.", "{id}.x", "{id}.{other}", "x", ".", "%00", "9" * 5000]
)
def test_it_cannot_be_guessed(parcel: Parcel, client: Client, token: str) -> None:
    other = path_of(LabelledParcelFactory.create()).rpartition(".")[2]
    path = token.format(id=parcel.pk, other=other)
    assert client.get(f"/tracking/{path}").status_code == 404


def test_a_guess_costs_no_statement(
    parcel: Parcel, client: Client, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        client.get(f"/tracking/{parcel.pk}.guess")


def test_what_was_not_sent_has_no_page(client: Client) -> None:
    parcel = ParcelFactory.create()
    assert tracking_url(parcel, "") == ""
    parcel.tracking_number = "3S1"  # here, and not in its row
    assert client.get(tracking_url(parcel, "")).status_code == 404


def test_it_is_only_read(parcel: Parcel, client: Client) -> None:
    assert client.post(path_of(parcel)).status_code == 405


def test_it_outlives_a_change_of_the_secret_key_as_a_fallback(
    parcel: Parcel, client: Client, settings: Any
) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    path = path_of(parcel)
    settings.SECRET_KEY = "another key, of which the former one is a fallback"
    assert client.get(path).status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert client.get(path).status_code == 404
