"""A JSON value that is encrypted in the database."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.db import models


@lru_cache(maxsize=4)
def _cipher(secrets: tuple[str, ...]) -> MultiFernet:
    digests = (hashlib.sha256(b"at rest:" + secret.encode()).digest() for secret in secrets)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(digest)) for digest in digests])


def cipher() -> MultiFernet:
    """Return the cipher: SECRET_KEY encrypts, SECRET_KEY_FALLBACKS still decrypt."""
    return _cipher((settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


if TYPE_CHECKING:  # at run time Django's fields take no type arguments
    _TextOfAnything = models.TextField[Any, Any]
else:
    _TextOfAnything = models.TextField


class EncryptedJSONField(_TextOfAnything):
    """Credentials and signing secrets: readable by the application, not in a stolen dump."""

    def from_db_value(self, value: str | None, *_: object) -> Any:
        return None if value is None else json.loads(cipher().decrypt(value.encode()))

    def to_python(self, value: Any) -> Any:
        return value

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else cipher().encrypt(json.dumps(value).encode()).decode()

    def value_to_string(self, obj: models.Model) -> str:
        return str(self.get_prep_value(self.value_from_object(obj)))
