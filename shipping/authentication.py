"""HTTP Basic by key pair: the public key is the user, the secret key the password.

With a limit on failures by address (`failed_keys`). Keys that worked lately in this process pass
whatever fails beside them: behind a proxy that is not in TRUSTED_PROXIES all clients have one
address. For BELIEVED seconds they are not looked up again.
"""

import hashlib
import hmac
from time import monotonic

import structlog
from django.http import HttpRequest
from rest_framework.authentication import BasicAuthentication
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request

from parcels import metrics
from parcels.models import Account, ApiKey
from shipping.failed_keys import FAILURES, REMEMBERED

# Seconds that a key is believed which was looked up: a shop's requests come in bursts. So long a
# key that was revoked, and an account that was switched off or limited, goes on as before.
BELIEVED = 5.0
# Compared with when the public key is unknown: both failures then do the same work.
_NOBODY = ApiKey(public_key="", digest="0" * 64, secret_hash="0" * 64)
_LONGEST = ApiKey._meta.get_field("public_key").max_length or 0
# By a hash of both keys: until when it is believed, and what was found.
_worked: dict[bytes, tuple[float, ApiKey]] = {}


class KeyPairAuthentication(BasicAuthentication):
    """Make `request.user` the account, and `request.auth` the key.

    Answers 429, without a query, to an address that fails too often.
    """

    www_authenticate_realm = "api"

    def authenticate_credentials(  # type: ignore[override] # the user is an account here
        self, userid: str, password: str, request: HttpRequest | Request | None = None
    ) -> tuple[Account, ApiKey]:
        digest = hashlib.sha256(f"{userid}:{password}".encode()).digest()
        until, key = _worked.get(digest, (0.0, None))
        if key is None or until <= monotonic():
            # Usually nobody has failed: no address needs to be read.
            if FAILURES.windows and key is None and (wait := FAILURES.wait(request)):
                metrics.THROTTLED.labels("keys").inc()
                raise Throttled(wait)
            # PostgreSQL refuses NUL instead of finding nothing; a longer text can't be a key.
            public_key = "" if "\0" in userid or len(userid) > _LONGEST else userid
            key = (
                ApiKey.objects.select_related("account__sender_address")
                .filter(public_key=public_key, revoked_at=None, account__is_active=True)
                .first()
            )
            # By its digest; a key from an older version has none, and is compared by the model.
            found = key or _NOBODY
            given = hashlib.sha256(password.encode()).hexdigest()
            matches = hmac.compare_digest(found.digest, given) or found.matches(password)
            if key is None or not matches:
                _worked.pop(digest, None)
                FAILURES.count(request)
                raise AuthenticationFailed("Invalid username/password.")
            if not key.digest:
                key.keep_digest(password)
            if len(_worked) >= REMEMBERED:
                _worked.clear()
            _worked[digest] = monotonic() + BELIEVED, key
        structlog.contextvars.bind_contextvars(account=key.account_id)
        return key.account, key
