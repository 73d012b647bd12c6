"""The last part of a tracking page's address: a parcel's id, signed so that it can't be guessed.

Always the same for a parcel, and valid while SECRET_KEY is used or among the fallbacks.
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
