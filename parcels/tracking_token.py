"""What a tracking page's address ends with: a parcel's id, signed, so that none can be guessed.

The same for a parcel each time, and good as long as SECRET_KEY, or it among the fallbacks.
"""

from __future__ import annotations

from django.core.signing import BadSignature, Signer

_SALT = "tracking page"


def tracking_token(parcel_id: int) -> str:
    """Return the token of the parcel's page."""
    return Signer(salt=_SALT, sep=".").sign(str(parcel_id))


def parcel_id_of(token: str) -> int | None:
    """Return the id that we signed; None when it was somebody else."""
    try:
        return int(Signer(salt=_SALT, sep=".").unsign(token))
    except BadSignature:
        return None
