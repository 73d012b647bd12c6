"""Make the two demo accounts and an operator, and write their keys to a file."""

import os
import secrets
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import transaction

from parcels.models import Account, ApiKey, Brand, Integration, SenderAddress

OPERATOR = "operator"
NAMES = (("Demo Shop", ""), ("Second Shop", "_2"))


class Command(BaseCommand):
    help = "Create two demo accounts and an operator, written as KEY=value lines to --env-file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--env-file", type=Path, required=True)
        parser.add_argument("--migrate", action="store_true", help="migrate the database first")

    def handle(self, *args: Any, env_file: Path, migrate: bool = False, **options: Any) -> None:
        if migrate:  # here: a command of its own would load all of Django a second time
            call_command("migrate", verbosity=0)
        self._make(env_file)

    @transaction.atomic
    def _make(self, env_file: Path) -> None:
        known = _read(env_file)
        lines: list[str] = []
        for name, suffix in NAMES:
            account = _account(name, os.environ.get(f"DEMO_WRITE_LIMIT{suffix}", "none"))
            _furnish(account)
            public, secret = known.get(f"PUBLIC_KEY{suffix}"), known.get(f"SECRET_KEY{suffix}")
            if not public or not secret or not _is_key_of(account, public, secret):
                key, secret = ApiKey.generate(account)
                public = key.public_key
            lines += [f"PUBLIC_KEY{suffix}={public}", f"SECRET_KEY{suffix}={secret}"]
        lines += _operator(known.get("ADMIN_PASSWORD"))
        env_file.parent.mkdir(parents=True, exist_ok=True)
        env_file.touch(mode=0o600)
        env_file.write_text("\n".join(lines) + "\n")


def _account(name: str, write_limit: str) -> Account:
    # "none": the demo's accounts, and but for one scenario the load tests', carry no rate limits.
    account, _ = Account.objects.get_or_create(
        name=name, defaults={"read_limit": "none", "write_limit": write_limit}
    )
    return account


def _operator(password: str | None) -> list[str]:
    """Return the lines for the admin's user; the password is made again when it isn't known."""
    user, _ = get_user_model().objects.get_or_create(
        username=OPERATOR, defaults={"is_staff": True, "is_superuser": True}
    )
    if not password or not user.check_password(password):
        password = secrets.token_urlsafe(12)
        user.set_password(password)
        user.save()
    return [f"ADMIN_USER={OPERATOR}", f"ADMIN_PASSWORD={password}"]


def _furnish(account: Account) -> None:
    """Give the account what the dialect's clients ask for first."""
    brand, _ = Brand.objects.get_or_create(
        account=account,
        name=account.name,
        defaults={"domain": "demo", "return_portal_url": "https://returns.example/demo"},
    )
    SenderAddress.objects.get_or_create(
        account=account,
        company_name=account.name,
        defaults={
            "brand": brand,
            "contact_name": "Warehouse",
            "street": "Kanaalweg",
            "house_number": "3",
            "postal_code": "3526 KL",
            "city": "Utrecht",
            "country": "NL",
            "email": "warehouse@shop.example",
        },
    )
    Integration.objects.get_or_create(
        account=account, system="api", defaults={"shop_name": f"{account.name} API"}
    )


def _read(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {name: value for name, _, value in pairs}


def _is_key_of(account: Account, public_key: str, secret_key: str) -> bool:
    key = ApiKey.objects.filter(account=account, public_key=public_key, revoked_at=None).first()
    return key is not None and key.matches(secret_key)
