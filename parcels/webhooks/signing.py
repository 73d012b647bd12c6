"""Sign a body in both ways that receivers know.

`Sendcloud-Signature` is the dialect's: hex HMAC-SHA256 of the exact body, with the shop's secret
key. Of API keys we keep the hash only; an integration's webhook keeps, as its endpoint's secret,
the key of the request that set it. Other endpoints sign with a secret of their own.
Beside it the headers of Standard Webhooks (standardwebhooks.com).
"""

import base64
import hashlib
import hmac

from parcels.models.webhook import SECRET_PREFIX


def dialect_signature(secret: str, body: bytes) -> str:
    """Return the hex digest that the dialect's receivers compare."""
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def standard_signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """Return `v1,<base64>` over id, timestamp (seconds) and body."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    digest = hmac.new(_standard_key(secret), signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def _standard_key(secret: str) -> bytes:
    if secret.startswith(SECRET_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
        except ValueError:
            pass  # a secret of the shop's own that only looks like one of ours
    return secret.encode()


def signature_headers(secret: str, event_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return all headers by which a receiver can tell that the body is ours."""
    return {
        "Sendcloud-Signature": dialect_signature(secret, body),
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": standard_signature(secret, event_id, timestamp, body),
    }
