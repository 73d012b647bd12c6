"""A deployment's first account, by the command and by the admin; both show the secret key once."""

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from parcels.models import Account, ApiKey
from parcels.tests.requests import basic

pytestmark = pytest.mark.django_db


def create(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, str]:
    call_command("create_account", *words)
    return dict(line.split("=") for line in capsys.readouterr().out.split())


def test_its_key_opens_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    limits = ("--read-limit", "none", "--write-limit", "100/min,15/s")
    pair = create(capsys, "First Shop", "--email", "post@shop.example", *limits)
    header = basic(pair["PUBLIC_KEY"], pair["SECRET_KEY"])
    assert Client().get("/api/v2/user", headers={"Authorization": header}).status_code == 200
    account = Account.objects.get()
    assert (str(account.pk), account.name) == (pair["ACCOUNT_ID"], "First Shop")
    assert (account.email, account.write_limit) == ("post@shop.example", "100/min,15/s")


def test_a_second_of_the_same_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    first = create(capsys, "First Shop")
    with pytest.raises(CommandError, match=f"rotate_key {first['ACCOUNT_ID']}"):
        create(capsys, "First Shop")
    assert ApiKey.objects.count() == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["Shop", "--read-limit", "lots"], "read_limit: 'lots' is no limit"),
        (["Shop", "--email", "nowhere"], "email: Enter a valid"),
        (["x" * 256], "name: Ensure"),
        ([""], "name: This field"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_made(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match=named):
        create(capsys, *words)
    assert not Account.objects.exists()


def add(admin_client: Client, **fields: Any) -> Any:
    none = {"keys-TOTAL_FORMS": "0", "keys-INITIAL_FORMS": "0"}
    return admin_client.post("/admin/parcels/account/add/", none | fields)


def test_the_admin_adds_an_account_and_shows_its_keys(admin_client: Client) -> None:
    assert admin_client.get("/admin/parcels/account/add/").status_code == 200
    assert add(admin_client, name="First Shop", is_active="on").status_code == 302
    account = Account.objects.get()
    chosen = {"action": "issue_key", "_selected_action": [str(account.pk)]}
    assert b"Secret key: " in admin_client.post("/admin/parcels/account/", chosen).content
    page = admin_client.get(f"/admin/parcels/account/{account.pk}/change/").content.decode()
    assert ApiKey.objects.get().public_key in page


def test_the_admin_refuses_a_limit_that_can_t_be_read(admin_client: Client) -> None:
    answer = add(admin_client, name="First Shop", read_limit="lots")
    assert "is no limit" in answer.content.decode()
    assert not Account.objects.exists()
