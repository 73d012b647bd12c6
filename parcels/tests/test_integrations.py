"""An integration's webhook: set as the dialect sets it, verified as its receivers verify."""

import base64
import hashlib
import hmac
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from parcels import limits
from parcels.models import ApiKey, Integration, WebhookDelivery, WebhookEndpoint, WebhookEvent
from parcels.services import webhooks
from parcels.services.keys import revoke_key
from parcels.tests.factories import LabelledParcelFactory
from parcels.tests.requests import Shop
from parcels.webhooks.post import Answer

pytestmark = pytest.mark.django_db
URL = "https://receiver.example/hook"
WHOLE = {
    "shop_name": "Webshop",
    "shop_url": "https://shop.example",
    "service_point_enabled": False,
    "service_point_carriers": [],
    "webhook_active": True,
    "webhook_url": URL,
}


@pytest.fixture
def path(shop: Shop) -> str:
    integration = Integration.objects.create(account=shop.account, shop_name="Shop")
    return f"integrations/{integration.pk}"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes, dict[str, str]]]:
    """Take all that would be POSTed; the answer is 200."""
    taken: list[tuple[str, bytes, dict[str, str]]] = []

    def take(url: str, body: bytes, headers: dict[str, str], **_: Any) -> Answer:
        taken.append((url, body, headers))
        return Answer(200, "", 0.1)

    monkeypatch.setattr(webhooks, "post", take)
    monkeypatch.setattr(webhooks, "send", lambda *_: True)
    return taken


def secret_key(shop: Shop) -> str:
    return base64.b64decode(shop.authorization.split()[1]).decode().partition(":")[2]


def news_of_a_parcel(shop: Shop) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    event = WebhookEvent.objects.create(account=shop.account, parcel=parcel, status=1000)
    webhooks.spread(event.pk)
    webhooks.deliver(WebhookDelivery.objects.get(event=event).pk)


def is_verified(key: str, body: bytes, headers: dict[str, str]) -> bool:
    """Verify as the published receivers do: with a key, over the body as it came."""
    expected = hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    return headers["Sendcloud-Signature"] == expected


def test_a_receiver_with_the_secret_key_verifies(
    shop: Shop, path: str, sent: list[tuple[str, bytes, dict[str, str]]]
) -> None:
    answer = shop.put(path, WHOLE)
    assert answer.status_code == 200
    assert (answer.json()["webhook_active"], answer.json()["webhook_url"]) == (True, URL)
    news_of_a_parcel(shop)
    [(url, body, headers)] = sent
    assert url == URL
    assert is_verified(secret_key(shop), body, headers)


def test_a_signature_key_of_its_own_signs(
    shop: Shop, path: str, sent: list[tuple[str, bytes, dict[str, str]]]
) -> None:
    answer = shop.patch(path, WHOLE | {"webhook_signature_key": "k" * 32 + " "})
    assert "k" * 32 not in answer.content.decode()
    news_of_a_parcel(shop)
    assert is_verified("k" * 32 + " ", *sent[0][1:])


def test_after_a_change_of_keys_setting_the_address_signs_with_the_new_one(
    shop: Shop, path: str, sent: list[tuple[str, bytes, dict[str, str]]]
) -> None:
    shop.put(path, WHOLE)
    changed = Shop(shop.account)
    changed.patch(path, {"shop_name": "Other"})
    news_of_a_parcel(shop)
    assert is_verified(secret_key(shop), *sent[0][1:])
    changed.patch(path, {"webhook_url": URL})
    news_of_a_parcel(shop)
    assert is_verified(secret_key(changed), *sent[1][1:])
    assert WebhookEndpoint.objects.count() == 1


def test_a_signature_key_stays_until_another_comes(
    shop: Shop, path: str, sent: list[tuple[str, bytes, dict[str, str]]]
) -> None:
    shop.put(path, WHOLE | {"webhook_signature_key": "k" * 32})
    for each in (shop, Shop(shop.account)):
        each.put(path, WHOLE)
        news_of_a_parcel(shop)
        assert is_verified("k" * 32, *sent.pop()[1:])
    shop.put(path, WHOLE | {"webhook_signature_key": "n" * 32})
    news_of_a_parcel(shop)
    assert is_verified("n" * 32, *sent.pop()[1:])


def test_the_secret_key_replaces_a_revoked_one_and_what_is_lost(
    shop: Shop, path: str, sent: list[tuple[str, bytes, dict[str, str]]]
) -> None:
    shop.put(path, WHOLE)
    changed = Shop(shop.account)
    revoke_key(ApiKey.objects.earliest("pk"))
    changed.put(path, WHOLE)
    news_of_a_parcel(shop)
    with connection.cursor() as cursor:  # a secret that no key decrypts
        cursor.execute("UPDATE parcels_webhookendpoint SET secret = 'x'")
    changed.put(path, WHOLE)
    news_of_a_parcel(shop)
    assert len(sent) == 2
    assert all(is_verified(secret_key(changed), *each[1:]) for each in sent)


@pytest.mark.parametrize("by", ["command", "admin"])
def test_revoking_a_key_names_the_webhooks_that_sign_with_it(
    shop: Shop, path: str, admin_client: Client, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    shop.put(path, WHOLE)
    hook = WebhookEndpoint.objects.get()
    own = WebhookEndpoint.objects.create(account=shop.account, url=URL, secret=secret_key(shop))
    WebhookEndpoint.objects.create(account=shop.account, url=URL)
    lost = WebhookEndpoint.objects.create(account=shop.account, url=URL)
    with connection.cursor() as cursor:  # a secret that no key decrypts
        cursor.execute("UPDATE parcels_webhookendpoint SET secret = 'x' WHERE id = %s", [lost.pk])
    key = ApiKey.objects.get(account=shop.account)
    if by == "command":
        call_command("rotate_key", str(shop.account.pk), "--revoke", key.public_key)
        said = capsys.readouterr().out
    else:
        selected = {"action": "revoke", "_selected_action": [str(key.pk)]}
        page = admin_client.post("/admin/parcels/apikey/", selected, follow=True)
        said = page.content.decode().replace("Webhook", "webhook")  # a message has a capital
    assert said.count("still signs") == 2
    for webhook, field in ((hook, "webhook_url"), (own, "secret")):
        assert f"{webhook} still signs with this key: have the shop send its {field} again" in said


def test_the_key_is_encrypted_at_rest(shop: Shop, path: str) -> None:
    shop.put(path, WHOLE)
    with connection.cursor() as cursor:
        cursor.execute("SELECT secret FROM parcels_webhookendpoint")
        assert secret_key(shop) not in cursor.fetchone()[0]


def test_what_is_not_given_stays(shop: Shop, path: str) -> None:
    shop.put(path, WHOLE)
    shown = shop.patch(path, {"shop_name": "Other"}).json()
    assert (shown["shop_name"], shown["shop_url"]) == ("Other", WHOLE["shop_url"])
    assert (shown["webhook_active"], shown["webhook_url"]) == (True, URL)
    assert shop.get(path).json() == shown
    assert shop.get("integrations").json() == [shown]


def test_it_is_one_of_ten(shop: Shop, path: str) -> None:
    for number in range(limits.WEBHOOKS):
        WebhookEndpoint.objects.create(account=shop.account, url=f"{URL}/{number}")
    before = shop.get(path).json()
    for answer in (shop.put(path, WHOLE), shop.post("webhooks", {"webhook": {"url": URL}})):
        assert answer.status_code == 400
        assert "At most 10 webhooks" in answer.json()["error"]["message"]
    assert shop.get(path).json() == before
    assert WebhookEndpoint.objects.count() == 10


def test_a_webhook_is_switched_off_and_on(shop: Shop, path: str) -> None:
    shop.put(path, WHOLE)
    shown = shop.patch(path, {"webhook_active": False}).json()
    assert (shown["webhook_active"], shown["webhook_url"]) == (False, URL)
    assert shop.patch(path, {"webhook_active": True}).json()["webhook_active"] is True
    gone = shop.put(path, WHOLE | {"webhook_active": False, "webhook_url": ""}).json()
    assert (gone["webhook_active"], gone["webhook_url"]) == (False, "")
    assert not WebhookEndpoint.objects.exists()


def test_another_change_of_an_integration_says_nothing_about_its_webhook(
    shop: Shop, path: str
) -> None:
    shop.put(path, WHOLE)
    WebhookEndpoint.objects.update(failures=3, retry_at=timezone.now())
    shop.patch(path, {"shop_name": "New"})
    assert WebhookEndpoint.objects.get().failures == 3
    shop.patch(path, {"webhook_active": True})
    assert WebhookEndpoint.objects.get().failures == 0


def test_a_webhook_that_is_only_named_is_not_active(shop: Shop, path: str) -> None:
    assert shop.patch(path, {"webhook_url": URL}).json()["webhook_active"] is False


def test_its_endpoint_is_one_of_the_account_s(shop: Shop, path: str) -> None:
    shop.put(path, WHOLE)
    [endpoint] = shop.get("webhooks").json()["webhooks"]
    assert endpoint["url"] == URL
    shop.delete(f"webhooks/{endpoint['id']}")
    assert shop.get(path).json()["webhook_url"] == ""


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"webhook_active": True}, "webhook_url"),
        ({"webhook_active": True, "webhook_url": ""}, "webhook_url"),
        ({"webhook_url": "ftp://receiver.example/"}, "webhook_url"),
        ({"webhook_url": 7}, "webhook_url"),
        ({"webhook_url": URL, "webhook_signature_key": "short"}, "webhook_signature_key"),
        ({"webhook_signature_key": "k" * 32}, "webhook_url"),
        ({"webhook_active": "perhaps"}, "webhook_active"),
        ({"shop_name": ""}, "shop_name"),
        ({"shop_name": "x" * 256}, "shop_name"),
        ({"shop_url": "\0"}, "shop_url"),
        ({"service_point_enabled": True}, "service_point_enabled"),
        ({"service_point_carriers": ["ups"]}, "service_point_carriers"),
    ],
)
def test_what_cannot_be_is_a_400_that_names_it(
    shop: Shop, path: str, fields: dict[str, Any], named: str
) -> None:
    before = shop.get(path).json()
    answer = shop.patch(path, fields)
    assert answer.status_code == 400, answer.content
    assert named in answer.json()["error"]["message"]
    assert shop.get(path).json() == before


@pytest.mark.parametrize("payload", [None, [], 7, {}])
def test_a_put_is_whole(shop: Shop, path: str, payload: Any) -> None:
    assert shop.put(path, payload).status_code == 400


def test_a_deleted_integration_tells_nobody(shop: Shop, path: str) -> None:
    shop.put(path, WHOLE)
    assert shop.delete(path).status_code == 204
    assert shop.get(path).status_code == 404
    assert not WebhookEndpoint.objects.exists()


def test_another_account_s_is_unknown(other_shop: Shop, path: str) -> None:
    for answer in (
        other_shop.get(path),
        other_shop.put(path, WHOLE),
        other_shop.patch(path, WHOLE),
        other_shop.delete(path),
    ):
        assert answer.status_code == 404
    assert Integration.objects.get().shop_name == "Shop"
