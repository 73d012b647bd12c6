"""Make an account with its API key: the first of a deployment, and each after it."""

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from parcels.models import Account
from parcels.services.keys import issue_key

LIMIT = 'like "1000/min" or "100/min,15/s", or "none"; without it the general one holds'
FIELDS = {
    "company_name": "on labels, beside the name",
    "email": "of the shop's sender",
    "telephone": "of the shop's sender",
    "read_limit": f"of its GETs: {LIMIT}",
    "write_limit": f"of its other requests: {LIMIT}",
}


class Command(BaseCommand):
    help = (
        "Create an account and its API key, printed as KEY=value lines. The secret key is shown "
        "only once; rotate_key issues another."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the shop's name, unique among accounts")
        for field, text in FIELDS.items():
            parser.add_argument(f"--{field.replace('_', '-')}", default="", help=text)

    def handle(self, *args: Any, name: str, **options: Any) -> None:
        account = Account(name=name, **{field: options[field] for field in FIELDS})
        if known := Account.objects.filter(name=name).first():
            raise CommandError(f"account {known.pk} has this name: rotate_key {known.pk}")
        try:
            account.full_clean()
        except ValidationError as error:
            wrong = [f"{field}: {' '.join(texts)}" for field, texts in error.message_dict.items()]
            raise CommandError("; ".join(wrong)) from None
        with transaction.atomic():
            account.save()
            key, secret = issue_key(account)
        self.stdout.write(
            f"ACCOUNT_ID={account.pk}\nPUBLIC_KEY={key.public_key}\nSECRET_KEY={secret}"
        )
