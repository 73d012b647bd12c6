"""Two live keys for a change without an outage; secrets are shown once and never kept."""

import logging
from typing import Any

import pytest
import structlog
from asgiref.sync import sync_to_async
from django.core.management import CommandError, call_command
from django.db import InternalError, connections
from django.test import AsyncClient, Client

from parcels.models import Account, ApiKey, CarrierContract, WebhookEndpoint
from parcels.services.keys import TooManyKeys, issue_key, revoke_key
from parcels.tests.factories import AccountFactory
from parcels.tests.requests import Shop, basic

pytestmark = pytest.mark.django_db


def status_with(key: ApiKey, secret: str) -> int:
    header = basic(key.public_key, secret)
    return Client().get("/api/v2/user", headers={"Authorization": header}).status_code


def test_both_keys_work_until_one_is_revoked(account: Account) -> None:
    (old, old_secret), (new, new_secret) = issue_key(account), issue_key(account)
    assert [status_with(old, old_secret), status_with(new, new_secret)] == [200, 200]
    assert revoke_key(old)
    assert [status_with(old, old_secret), status_with(new, new_secret)] == [401, 200]
    assert not revoke_key(old)


def test_a_third_key_is_refused(account: Account) -> None:
    first, _ = issue_key(account)
    issue_key(account)
    with pytest.raises(TooManyKeys):
        issue_key(account)
    revoke_key(first)
    issue_key(account)


def test_the_command_rotates(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    old, _ = issue_key(account)
    call_command("rotate_key", str(account.pk))
    printed = dict(line.split("=") for line in capsys.readouterr().out.split())
    new = ApiKey.objects.get(public_key=printed["PUBLIC_KEY"])
    assert status_with(new, printed["SECRET_KEY"]) == 200
    with pytest.raises(CommandError, match="two live keys"):
        call_command("rotate_key", str(account.pk))
    call_command("rotate_key", str(account.pk), "--revoke", old.public_key)
    old.refresh_from_db()
    assert old.revoked_at is not None


def test_the_command_keeps_accounts_apart(account: Account) -> None:
    other, _ = issue_key(AccountFactory.create())
    for given in (other.public_key, ""):  # as of a script's variable that is not set
        with pytest.raises(CommandError, match="no such"):
            call_command("rotate_key", str(account.pk), "--revoke", given)
    with pytest.raises(CommandError, match="no account"):
        call_command("rotate_key", "999999")


def test_the_admin_issues_a_key_on_a_page_that_is_not_kept(
    account: Account, admin_client: Client
) -> None:
    response = admin_client.post(
        "/admin/parcels/account/",
        {"action": "issue_key", "_selected_action": [str(account.pk)]},
    )
    text = response.content.decode()
    key = ApiKey.objects.get(account=account)
    assert key.public_key in text
    assert "no-store" in response["Cache-Control"]
    secret = text.split("Secret key: ")[1].strip()
    assert key.matches(secret)
    assert not any(secret in str(cookie) for cookie in response.cookies.values())


def test_the_admin_revokes(account: Account, admin_client: Client) -> None:
    key, _ = issue_key(account)
    selected = {"action": "revoke", "_selected_action": [str(key.pk)]}
    assert admin_client.post("/admin/parcels/apikey/", selected).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None


@pytest.mark.parametrize("model", ["webhookendpoint", "webhookdelivery", "apikey", "account"])
def test_the_admin_shows_each_list(admin_client: Client, model: str) -> None:
    assert admin_client.get(f"/admin/parcels/{model}/").status_code == 200


def test_no_secret_is_in_a_representation_or_a_log(
    account: Account, caplog: pytest.LogCaptureFixture
) -> None:
    key, secret = issue_key(account)
    endpoint = WebhookEndpoint.objects.create(account=account, url="https://a.b/")
    contract = CarrierContract.objects.create(  # type: ignore[misc] # an encrypted JSON value
        account=account, carrier="postnl", credentials={"api_key": "carrier-secret"}
    )
    rows: list[Any] = [key, endpoint, contract, account]
    shown = " ".join(f"{row!r} {row}" for row in rows)
    with caplog.at_level(logging.DEBUG):
        status_with(key, secret)
        status_with(key, "wrong-" + secret)
        Shop(account).post("webhooks", {"webhook": {"url": "https://a.b/", "secret": "s" * 20}})
    for hidden in (secret, endpoint.secret, "carrier-secret", "s" * 20):
        assert hidden not in shown + caplog.text


def test_bad_keys_get_one_answer_for_the_same_work(
    account: Account, django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One query and one keyed hash, whatever is wrong."""
    key, _ = issue_key(account)
    revoked, its_secret = issue_key(account)
    revoke_key(revoked)
    sleeping, sleeping_secret = issue_key(AccountFactory.create(is_active=False))
    hashed: list[str] = []

    def keyed_hash(secret: str, key: str) -> str:
        hashed.append(secret)
        return "1" * 64

    monkeypatch.setattr("parcels.models.api_key.keyed_hash", keyed_hash)
    bad = [
        ("unknown", "x"),
        (key.public_key, "x"),
        (revoked.public_key, its_secret),
        (sleeping.public_key, sleeping_secret),
    ]
    answers = set()
    for public, given in bad:
        header = basic(public, given)
        with django_assert_num_queries(1):
            response = Client().get("/api/v2/user", headers={"Authorization": header})
        answers.add((response.status_code, response.content, response["WWW-Authenticate"]))
    assert [status for status, *_ in answers] == [401]
    assert hashed == [given for _, given in bad]


def use_new_secret_key(settings: Any, *fallbacks: str) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 60, list(fallbacks)


def test_keys_do_not_hang_on_the_secret_key(account: Account, settings: Any) -> None:
    key, secret = issue_key(account)
    use_new_secret_key(settings)
    assert status_with(key, secret) == 200
    assert status_with(key, secret + "x") == 401


def issue_as_before(account: Account) -> tuple[ApiKey, str]:
    """Return a key as it was stored before keys had a digest."""
    key, secret = issue_key(account)
    ApiKey.objects.filter(pk=key.pk).update(digest="")
    return key, secret


def test_a_key_of_before_outlives_a_rotation_once_it_was_used(
    account: Account, settings: Any, django_assert_num_queries: Any
) -> None:
    (key, secret), (unused, its_secret) = issue_as_before(account), issue_as_before(account)
    use_new_secret_key(settings, settings.SECRET_KEY)
    assert status_with(key, "wrong") == 401
    assert status_with(key, secret) == 200
    use_new_secret_key(settings)
    with django_assert_num_queries(2):  # the key's, and the view's
        assert status_with(key, secret) == 200
    assert status_with(key, "wrong") == 401
    assert status_with(unused, its_secret) == 401


def test_a_database_that_takes_no_writes_refuses_no_key(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, secret = issue_as_before(account)

    def refuse(*_: Any, **__: Any) -> None:
        raise InternalError("cannot execute UPDATE in a read-only transaction")

    monkeypatch.setattr("django.db.models.query.QuerySet.update", refuse)
    assert status_with(key, secret) == 200


def test_a_request_s_log_lines_name_its_account(shop: Shop) -> None:
    shop.get("user")
    assert structlog.contextvars.get_contextvars()["account"] == shop.account.pk


@pytest.mark.django_db(transaction=True)
async def test_they_do_in_the_asynchronous_stack(shop: Shop, async_client: AsyncClient) -> None:
    """Its view binds the account in another thread than the one that logs."""
    await async_client.get("/api/v2/user", headers={"Authorization": shop.authorization})
    await sync_to_async(connections.close_all)()  # that thread's own
    assert structlog.contextvars.get_contextvars()["account"] == shop.account.pk
