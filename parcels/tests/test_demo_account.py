"""The demo's keys: made once, kept over restarts, made anew when they no longer fit."""

from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from django.core.management import call_command

from parcels.models import Account, ApiKey

pytestmark = pytest.mark.django_db


def read(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def test_two_accounts_and_an_operator(tmp_path: Path) -> None:
    path = tmp_path / "accounts.env"
    call_command("demo_account", env_file=path)
    values = read(path)
    assert ApiKey.objects.get(public_key=values["PUBLIC_KEY"]).matches(values["SECRET_KEY"])
    assert ApiKey.objects.get(public_key=values["PUBLIC_KEY_2"]).matches(values["SECRET_KEY_2"])
    assert Account.objects.count() == 2
    user = authenticate(username=values["ADMIN_USER"], password=values["ADMIN_PASSWORD"])
    assert user is not None
    assert user.is_staff
    assert path.stat().st_mode & 0o077 == 0


def test_a_load_test_may_limit_the_second_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scenario `neighbour`, as shipped."""
    monkeypatch.setenv("DEMO_WRITE_LIMIT_2", "100/min,15/s")
    call_command("demo_account", env_file=tmp_path / "accounts.env")
    limits = Account.objects.order_by("pk").values_list("read_limit", "write_limit")
    assert list(limits) == [("none", "none"), ("none", "100/min,15/s")]


def test_a_second_start_keeps_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "accounts.env"
    call_command("demo_account", env_file=path)
    before = read(path)
    call_command("demo_account", env_file=path)
    assert read(path) == before
    assert ApiKey.objects.count() == 2


def test_keys_of_another_database_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "accounts.env"
    path.write_text("PUBLIC_KEY=a\nSECRET_KEY=b\nADMIN_PASSWORD=c\n")
    call_command("demo_account", env_file=path)
    assert read(path)["PUBLIC_KEY"] != "a"
    assert read(path)["ADMIN_PASSWORD"] != "c"


@pytest.mark.django_db(transaction=True)
def test_an_empty_database_is_brought_up_to_date_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []
    monkeypatch.setattr(
        "parcels.management.commands.demo_account.call_command",
        lambda *names, **options: done.append((names, Account.objects.count())),
    )
    call_command("demo_account", "--migrate", env_file=tmp_path / "accounts.env")
    assert done == [(("migrate",), 0)]
    assert Account.objects.count() == 2
