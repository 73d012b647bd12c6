"""Change an account's API key without an outage: issue, change over, revoke."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from parcels.models import Account, ApiKey
from parcels.services.keys import TooManyKeys, issue_key, revoke_key, signing_with


class Command(BaseCommand):
    help = (
        "Issue a second key pair for an account, printed once (rotate_key ACCOUNT_ID); when the "
        "shop uses it, revoke the first (rotate_key ACCOUNT_ID --revoke PUBLIC_KEY)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("account", type=int, help="the account's id")
        parser.add_argument("--revoke", metavar="PUBLIC_KEY")

    def handle(self, *args: Any, account: int, revoke: str | None, **options: Any) -> None:
        found = Account.objects.filter(pk=account).first()
        if found is None:
            raise CommandError(f"there is no account {account}")
        if revoke is None:
            self._issue(found)
        else:
            self._revoke(found, revoke)

    def _issue(self, account: Account) -> None:
        try:
            key, secret = issue_key(account)
        except TooManyKeys as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"PUBLIC_KEY={key.public_key}\nSECRET_KEY={secret}")

    def _revoke(self, account: Account, public_key: str) -> None:
        key = ApiKey.objects.filter(account=account, public_key=public_key).first()
        if key is None or not revoke_key(key):
            raise CommandError("this account has no such live key")
        self.stdout.write("\n".join([f"{public_key} is revoked", *signing_with(key)]))
