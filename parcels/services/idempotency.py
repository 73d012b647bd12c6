"""Idempotency keys: the same key and body create nothing new, in any order.

The key's row is written first in the transaction that accepts the parcels. Of fifty equal requests
at once one inserts it; on PostgreSQL the others wait for that transaction, on SQLite for their turn
to write, and then find the row.
"""

import hashlib
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request

from parcels import limits
from parcels.models import Account, IdempotencyKey
from parcels.representation import Question

KEYS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Key:
    """A client's key, and the SHA-256 of what it was sent with."""

    text: str
    fingerprint: str


class KeyReused(APIException):
    status_code = 422
    default_detail = "Idempotency-Key: 'It was used with another request.'"


class MadeAndDeleted(APIException):
    status_code = 409
    default_detail = "Idempotency-Key: 'What it made was deleted.'"


class KeyKnown(Exception):
    """The key has made its parcels already; `row` says which."""

    def __init__(self, row: IdempotencyKey) -> None:
        super().__init__(row.key)
        self.row = row


def read_key(request: Request) -> Key:
    """Read the request's Idempotency-Key; call it before the body is parsed.

    Raises:
        ValidationError: it isn't 1 to 255 printable ASCII characters.
    """
    text = request.headers["Idempotency-Key"]
    if not (0 < len(text) <= limits.IDEMPOTENCY_KEY and text.isascii() and text.isprintable()):
        needed = f"It must be 1 to {limits.IDEMPOTENCY_KEY} printable ASCII characters."
        raise ValidationError({"Idempotency-Key": [needed]})
    query = request.META.get("QUERY_STRING", "").encode()
    parts = (request.method or "").encode(), request.path.encode(), query, request.body
    # Each part's length first: two parts must not pass for two others.
    framed = b"".join(b"%d:" % len(part) + part for part in parts)
    return Key(text, hashlib.sha256(framed).hexdigest())


def find(account: Account, key: Key) -> IdempotencyKey | None:
    """Return the key's row, if it has one that has not expired.

    Raises:
        KeyReused: it was sent with something else.
    """
    row = IdempotencyKey.objects.filter(
        account=account, key=key.text, expires_at__gt=timezone.now()
    ).first()
    if row is not None and row.fingerprint != key.fingerprint:
        raise KeyReused
    return row


def take(account: Account, key: Key) -> IdempotencyKey:
    """Write the key's row. Call it in the transaction that accepts, before anything else.

    Raises:
        KeyKnown: it has one.
        KeyReused: it has one, of another request.
        IntegrityError: somebody has just written one; look again.
    """
    row = find(account, key)
    if row is not None:
        raise KeyKnown(row)
    # Only if it has expired: one that was committed since our look must stop us below.
    IdempotencyKey.objects.filter(
        account=account, key=key.text, expires_at__lte=timezone.now()
    ).delete()
    return IdempotencyKey.objects.create(
        account=account,
        key=key.text,
        fingerprint=key.fingerprint,
        expires_at=timezone.now() + timedelta(seconds=settings.IDEMPOTENCY_KEY_LIFE),
    )


def fulfil(row: IdempotencyKey, question: Question, *, synchronous: bool) -> None:
    """Note what the request made, and whether its answer waits for the labels."""
    row.question = {"question": asdict(question), "synchronous": synchronous}
    row.save(update_fields=["question"])


def promised(row: IdempotencyKey) -> tuple[Question, bool]:
    """Return what `fulfil` noted."""
    noted: dict[str, Any] = row.question  # type: ignore[assignment] # fulfilled before it is read
    # A newer version, beside this one during an update, may ask for more.
    asked = {n: given for n, given in noted["question"].items() if n in Question.__slots__}
    return Question(**asked), bool(noted["synchronous"])


def forget_expired() -> int:
    """Delete expired keys; return how many."""
    expired = IdempotencyKey.objects.filter(expires_at__lte=timezone.now())
    some = list(expired.values_list("pk", flat=True)[:KEYS_AT_ONCE])
    return IdempotencyKey.objects.filter(pk__in=some).delete()[0] if some else 0
