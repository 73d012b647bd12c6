"""Encrypt and hash again, with today's SECRET_KEY, what was made with a former one."""

from collections.abc import Iterator

from cryptography.fernet import InvalidToken
from django.apps import apps
from django.conf import settings
from django.db import models, transaction
from django.db.models import Max, Min

from parcels.models import Announcement, CarrierContract
from parcels.models.encrypted import EncryptedJSONField
from parcels.services.job import credentials_hashes

# Rows per query: some milliseconds, so that no request waits for a lock.
ROWS_AT_ONCE = 10_000


def encrypted_columns() -> Iterator[tuple[type[models.Model], str]]:
    """Yield each model with the name of its encrypted field."""
    for model in apps.get_app_config("parcels").get_models():
        for field in model._meta.fields:
            if isinstance(field, EncryptedJSONField):
                yield model, field.name


def encrypt_again(model: type[models.Model], field: str) -> tuple[int, list[int]]:
    """Encrypt the field of every row; return how many, and the ids that no key can read."""
    unreadable: list[int] = []
    ids = list(model._default_manager.order_by("pk").values_list("pk", flat=True))
    for pk in ids:
        try:
            _encrypt_row(model, field, pk)
        except InvalidToken:
            unreadable.append(pk)
    return len(ids) - len(unreadable), unreadable


def _encrypt_row(model: type[models.Model], field: str, pk: int) -> None:
    with transaction.atomic():
        # Locked: an edit that comes in between must not be lost.
        row = model._default_manager.select_for_update().only("pk", field).filter(pk=pk).first()
        if row is not None:
            getattr(row, field)  # raises InvalidToken, where `save` would leave it as it is
            row.save(update_fields=[field])


def hash_again(unreadable_contracts: list[int]) -> int:
    """Hash the credentials again that announcements began with; return how many announcements.

    If the contract was edited since, the hash matches nothing, as it must.
    """
    contracts = CarrierContract.objects.exclude(pk__in=unreadable_contracts)
    known = [each.credentials for each in contracts.iterator()]
    known += settings.HOUSE_CREDENTIALS.values()
    new_by_old: dict[str, str] = {}
    for credentials in known:
        new, *former = credentials_hashes(dict(credentials))
        new_by_old |= dict.fromkeys(former, new)
    ends = Announcement.objects.aggregate(low=Min("pk"), high=Max("pk"))
    starts = range(ends["low"] or 0, (ends["high"] or -1) + 1, ROWS_AT_ONCE)
    return sum(_hash_portion(start, new_by_old) for start in starts)


def _hash_portion(start: int, new_by_old: dict[str, str]) -> int:
    rows = Announcement.objects.filter(pk__range=(start, start + ROWS_AT_ONCE - 1))
    found = set(rows.values_list("credentials_hash", flat=True)) & new_by_old.keys()
    return sum(
        rows.filter(credentials_hash=old).update(credentials_hash=new_by_old[old]) for old in found
    )
