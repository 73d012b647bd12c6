"""HTTP Basic by key pair: the public key is the user, the secret key the password."""

from __future__ import annotations

import base64

import structlog
from django.http import HttpRequest
from rest_framework.authentication import BasicAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from parcels.models import Account, ApiKey

# Compared with when the public key is unknown: both failures then do the same work.
_NOBODY = ApiKey(public_key="", digest="0" * 64, secret_hash="0" * 64)
_LONGEST = ApiKey._meta.get_field("public_key").max_length or 0
_MESSAGE = "Invalid username/password."


class KeyPairAuthentication(BasicAuthentication):
    """Make `request.user` the account, and `request.auth` the key."""

    www_authenticate_realm = "api"

    def authenticate_credentials(  # type: ignore[override] # the user is an account here
        self, userid: str, password: str, request: HttpRequest | Request | None = None
    ) -> tuple[Account, ApiKey]:
        # PostgreSQL refuses NUL instead of finding nothing; a longer text can't be a key.
        if "\0" in userid or len(userid) > _LONGEST:
            userid = ""
        key = (
            ApiKey.objects.select_related("account__sender_address")
            .filter(public_key=userid, revoked_at=None, account__is_active=True)
            .first()
        )
        matches = (key or _NOBODY).matches(password)
        if key is None or not matches:
            raise AuthenticationFailed(_MESSAGE)
        if not key.digest:
            key.keep_digest(password)
        structlog.contextvars.bind_contextvars(account=key.account_id)
        return key.account, key


def presented_secret(request: Request) -> str:
    """Return the secret key that an authenticated request came with."""
    pair = base64.b64decode(get_authorization_header(request).split()[1])
    return pair.decode().partition(":")[2]
