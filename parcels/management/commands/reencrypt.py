"""The third step of changing SECRET_KEY; the others are in docs/operations.md."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from parcels.models import ApiKey, CarrierContract
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
        self._name_unused_keys()
        if trouble:
            raise CommandError(f"no key decrypts these, they are unchanged: {', '.join(trouble)}")

    def _name_unused_keys(self) -> None:
        unused = ApiKey.objects.filter(digest="", revoked_at=None)
        names = list(unused.order_by("pk").values_list("public_key", flat=True))
        if names:
            self.stdout.write(
                "These API keys, not used since an older version, stop working without the former "
                f"SECRET_KEY: {', '.join(names)}"
            )
