"""The third step of changing SECRET_KEY; the others are in docs/operations.md."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from parcels.models import CarrierContract
from parcels.services.reencrypt import encrypt_again, encrypted_columns, hash_again


class Command(BaseCommand):
    help = "Encrypt again with SECRET_KEY what its fallbacks decrypt; may be run twice."

    def handle(self, *args: Any, **options: Any) -> None:
        said: list[str] = []
        trouble: list[str] = []
        unreadable_contracts: list[int] = []
        for model, field in encrypted_columns():
            done, unreadable = encrypt_again(model, field)
            said.append(f"{done} {model._meta.verbose_name_plural}")
            trouble += [f"{model._meta.verbose_name} {pk}" for pk in unreadable]
            if model is CarrierContract:
                unreadable_contracts = unreadable
        said.append(f"{hash_again(unreadable_contracts)} announcements")
        self.stdout.write(", ".join(said))
        if trouble:
            raise CommandError(f"no key decrypts these, they are unchanged: {', '.join(trouble)}")
