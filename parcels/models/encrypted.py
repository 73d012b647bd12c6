"""A JSON value that is encrypted in the database."""

import base64
import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.query_utils import DeferredAttribute

# What Fernet begins a value with: its version, and zeros of the time.
TOKEN = "gAAAAA"  # noqa: S105 # not a secret
FOREIGN = "No key decrypts it: add the SECRET_KEY that it was dumped with to SECRET_KEY_FALLBACKS"


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


class _Stored(str):
    """A value as it is in the database."""


class _DecryptedWhenRead(DeferredAttribute):
    """Raises InvalidToken where no key decrypts the value: its row can be loaded all the same.

    Else it could be neither listed, nor deleted, nor given a new value.
    """

    def __get__(self, instance: models.Model | None, cls: type[models.Model] | None = None) -> Any:
        value = super().__get__(instance, cls)
        if instance is not None and isinstance(value, _Stored):
            try:
                value = json.loads(cipher().decrypt(value.encode()))
            except InvalidToken as error:  # whose own words are none
                row = f"{instance._meta.verbose_name} {instance.pk}"
                raise InvalidToken(f"no key decrypts {self.field.attname} of {row}") from error
            self.__set__(instance, value)
        return value

    def __set__(self, instance: models.Model, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


class EncryptedJSONField(_TextOfAnything):
    """Credentials and signing secrets: readable by the application, not in a stolen dump."""

    descriptor_class = _DecryptedWhenRead

    def from_db_value(self, value: str | None, *_: object) -> Any:
        return None if value is None else _Stored(value)

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        try:
            return super().pre_save(model_instance, add)
        except InvalidToken:
            return model_instance.__dict__[self.attname]  # left as it is

    def to_python(self, value: Any) -> Any:
        """Take a fixture's, from `value_to_string`, as it is.

        Raises: ValidationError: no key decrypts it. Encrypted again it would be a wrong value.
        """
        if not (isinstance(value, str) and value.startswith(TOKEN)):
            return value
        try:
            cipher().decrypt(value.encode())
        except InvalidToken:
            raise ValidationError(FOREIGN) from None
        return _Stored(value)

    def get_prep_value(self, value: Any) -> str | None:
        if isinstance(value, _Stored):
            return str(value)
        return None if value is None else cipher().encrypt(json.dumps(value).encode()).decode()

    def value_to_string(self, obj: models.Model) -> str:
        return str(self.get_prep_value(self.value_from_object(obj)))
