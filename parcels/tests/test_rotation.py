"""SECRET_KEY is changed: what was encrypted and hashed with the former one goes on working."""

from typing import Any

import pytest
from cryptography.fernet import InvalidToken
from django.core.management import CommandError, call_command
from django.test import Client

from parcels.models import (
    Account,
    Announcement,
    ApiKey,
    CarrierContract,
    Integration,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services.announcement_sql import calls_about
from parcels.services.call_and_wait import job_for
from parcels.services.job import credentials_hashes
from parcels.services.keys import issue_key
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory
from parcels.tests.requests import Shop

pytestmark = pytest.mark.django_db
CREDENTIALS = {"api_key": "carrier-secret"}


@pytest.fixture
def contract(account: Account) -> CarrierContract:
    return CarrierContract.objects.create(  # type: ignore[misc] # an encrypted JSON value
        account=account, carrier="postnl", credentials=CREDENTIALS
    )


@pytest.fixture
def endpoint(account: Account) -> WebhookEndpoint:
    return WebhookEndpoint.objects.create(account=account, url="https://a.b/", secret="whsec_1")


def begun(contract: CarrierContract | None, credentials: dict[str, str]) -> Announcement:
    """Return an announcement that was sent with these credentials."""
    row = AnnouncementFactory.create(
        contract=contract, credentials_hash=credentials_hashes(credentials)[0]
    )
    assert isinstance(row, Announcement)
    return row


def change_secret_key(settings: Any, *, fallbacks: bool) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY] if fallbacks else []
    settings.SECRET_KEY = "n" * 60


def changed(row: Announcement) -> bool:
    job = job_for(calls_about().get(pk=row.pk))
    assert job is not None
    return job.changed


def test_the_former_key_can_be_taken_away_after_reencrypt(
    contract: CarrierContract,
    endpoint: WebhookEndpoint,
    settings: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    house = begun(None, settings.HOUSE_CREDENTIALS["postnl"])
    rows = [begun(contract, CREDENTIALS), house]
    edited = begun(contract, {"api_key": "of another agreement"})
    change_secret_key(settings, fallbacks=True)
    assert [changed(row) for row in rows] == [False, False]
    call_command("reencrypt")
    assert "1 carrier contracts, 1 webhook endpoints, 2 announcements" in capsys.readouterr().out
    settings.SECRET_KEY_FALLBACKS = []
    contract.refresh_from_db()
    endpoint.refresh_from_db()
    assert (contract.credentials, endpoint.secret) == (CREDENTIALS, "whsec_1")
    for row in (*rows, edited):
        row.refresh_from_db()
    assert [changed(row) for row in (*rows, edited)] == [False, False, True]


def test_without_reencrypt_the_former_key_is_missed(
    contract: CarrierContract, settings: Any
) -> None:
    """The control of the test above."""
    row = begun(None, settings.HOUSE_CREDENTIALS["postnl"])
    change_secret_key(settings, fallbacks=False)
    assert changed(row)
    with pytest.raises(InvalidToken):
        contract.refresh_from_db()


def test_a_row_that_nothing_can_read_is_named_and_keeps_no_other_back(
    contract: CarrierContract, endpoint: WebhookEndpoint, settings: Any
) -> None:
    secret_key = settings.SECRET_KEY
    settings.SECRET_KEY = "lost" * 15
    endpoint.save()
    settings.SECRET_KEY = secret_key
    change_secret_key(settings, fallbacks=True)
    with pytest.raises(CommandError, match=f"webhook endpoint {endpoint.pk}") as refused:
        call_command("reencrypt")
    assert "whsec_1" not in str(refused.value)
    settings.SECRET_KEY_FALLBACKS = []
    contract.refresh_from_db()
    assert contract.credentials == CREDENTIALS


@pytest.fixture
def unreadable(contract: CarrierContract, endpoint: WebhookEndpoint, settings: Any) -> None:
    """Store a contract and an endpoint with a key that is lost."""
    endpoint.integration = Integration.objects.create(account=endpoint.account, shop_name="Shop")
    endpoint.save()
    change_secret_key(settings, fallbacks=False)


@pytest.mark.usefixtures("unreadable")
@pytest.mark.parametrize(
    "page",
    [
        "/admin/parcels/webhookendpoint/",
        "/admin/parcels/webhookendpoint/{endpoint.pk}/change/",
        "/admin/parcels/webhookdelivery/",
        "/admin/parcels/webhookdelivery/{delivery.pk}/change/",
        "/admin/parcels/carriercontract/",
        "/admin/parcels/carriercontract/{contract.pk}/change/",
        "/operator/parcels/{delivery.event.parcel_id}",
    ],
)
def test_a_secret_that_nothing_can_read_leaves_the_pages(
    admin_client: Client, contract: CarrierContract, endpoint: WebhookEndpoint, page: str
) -> None:
    parcel = LabelledParcelFactory.create(account=endpoint.account)
    event = WebhookEvent.objects.create(account=endpoint.account, parcel=parcel, status=1000)
    delivery = WebhookDelivery.objects.create(event=event, endpoint=endpoint)
    path = page.format(endpoint=endpoint, contract=contract, delivery=delivery)
    answer = admin_client.get(path)
    assert answer.status_code == 200
    assert ("unreadable" in answer.content.decode()) is ("/carriercontract/" in path)


@pytest.mark.usefixtures("unreadable")
def test_a_secret_that_nothing_can_read_is_replaced_in_the_admin(
    admin_client: Client, contract: CarrierContract, endpoint: WebhookEndpoint
) -> None:
    page = f"/admin/parcels/carriercontract/{contract.pk}/change/"
    typed = {"account": contract.account_id, "carrier": "postnl", "name": "Renamed"}
    assert admin_client.post(page, typed).status_code == 302
    with pytest.raises(InvalidToken):
        contract.refresh_from_db()
    typed["credentials"] = '{"api_key": "new"}'
    assert admin_client.post(page, typed).status_code == 302
    contract.refresh_from_db()
    assert (contract.name, contract.credentials) == ("Renamed", {"api_key": "new"})
    page = f"/admin/parcels/webhookendpoint/{endpoint.pk}/change/"
    changed = {"account": endpoint.account_id, "url": "https://c.d/"}
    assert admin_client.post(page, changed).status_code == 302
    assert WebhookEndpoint.objects.filter(url="https://c.d/").exists()


@pytest.mark.usefixtures("unreadable")
def test_a_secret_that_nothing_can_read_is_replaced_by_the_shop(
    shop: Shop, contract: CarrierContract, endpoint: WebhookEndpoint
) -> None:
    for path in ("contracts", f"contracts/{contract.pk}", "webhooks", f"webhooks/{endpoint.pk}",
                 f"webhooks/{endpoint.pk}/deliveries", "integrations"):  # fmt: skip
        assert shop.get(path).status_code == 200
    path, secret = f"webhooks/{endpoint.pk}", "s" * 40
    assert shop.put(path, {"webhook": {"url": "https://c.d/"}}).status_code == 200
    with pytest.raises(InvalidToken):
        endpoint.refresh_from_db()
    assert shop.put(path, {"webhook": {"secret": secret}}).status_code == 200
    endpoint.refresh_from_db()
    assert (endpoint.url, endpoint.secret) == ("https://c.d/", secret)


@pytest.mark.usefixtures("unreadable")
def test_an_endpoint_whose_secret_nothing_can_read_is_deleted(
    shop: Shop, endpoint: WebhookEndpoint
) -> None:
    assert shop.call("DELETE", f"webhooks/{endpoint.pk}", {}).status_code == 204
    assert not WebhookEndpoint.objects.exists()


def test_keys_that_would_end_with_the_former_key_are_named(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    used, _ = issue_key(account)
    unused, _ = issue_key(account)
    ApiKey.objects.filter(pk=unused.pk).update(digest="")
    call_command("reencrypt")
    said = capsys.readouterr().out
    assert unused.public_key in said
    assert used.public_key not in said
