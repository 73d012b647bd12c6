"""Tickets: the right to wait once for one hold, signed. Standard library only.

The app gives one to a front in another process, which has the hub hold its client by it.
"""

import hmac
import math
import re
import secrets
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from functools import lru_cache

from offload.protocol import Hold, check_hold_id

# Seconds that a ticket outlives its deadline, and is known as used: over what fronts wait for a hub
# that stands still (DEADLINE + 30 s), if DEADLINE is at most 120. It then answers whoever came.
TICKET_GRACE = 180.0
# Seconds that its late answer does, in the store. In a burst on two cores requests queued for some
# seconds between the app and the hub. After that the hub asks the app.
LATE_GRACE = 30.0
# HMAC-SHA256 is as strong as its key: 32 characters of hex are 128 bits.
SECRET_LENGTH = 32

_VERSION = 1
# version, hold id, account's digest, deadline in ms, nonce. 49 bytes, and 32 of MAC behind it
# make 108 characters of base64 without padding: no spare bits, so one text per ticket.
_TICKET = struct.Struct(">B16s8sQ16s")
_TICKET_TEXT = re.compile(r"[A-Za-z0-9_-]{108}")
_NO_ACCOUNT = bytes(8)


class TicketRefused(Exception):
    """The ticket is forged, damaged or long past its deadline."""


def make_ticket(secret: str, hold_id: str, *, account: str, deadline: float) -> str:
    """Sign a ticket of 108 url-safe characters.

    `deadline` is in seconds since the epoch. The account is in it as a digest: it is only counted.
    """
    content = _TICKET.pack(
        _VERSION,
        bytes.fromhex(check_hold_id(hold_id)),
        hmac.digest(key_of(secret, "account"), account.encode(), "sha256")[:8]
        if account
        else _NO_ACCOUNT,
        math.ceil(deadline * 1000),
        secrets.token_bytes(16),
    )
    mac = hmac.digest(key_of(secret, "ticket"), content, "sha256")
    return urlsafe_b64encode(content + mac).decode()


def read_ticket(secret: str, text: str, *, now: float, fallbacks: Iterable[str] = ()) -> Hold:
    """Return what the ticket says, or raise TicketRefused; `fallbacks` are secrets good as well."""
    if not _TICKET_TEXT.fullmatch(text):
        raise TicketRefused("not a ticket")
    signed = urlsafe_b64decode(text)
    content, mac = signed[: _TICKET.size], signed[_TICKET.size :]
    keys = [key_of(each, "ticket") for each in (secret, *fallbacks)]
    if not any(hmac.compare_digest(mac, hmac.digest(key, content, "sha256")) for key in keys):
        raise TicketRefused("forged")
    version, hold_id, account, milliseconds, nonce = _TICKET.unpack(content)
    if version != _VERSION:
        raise TicketRefused("another version")
    deadline = milliseconds / 1000
    if now > deadline + TICKET_GRACE:
        raise TicketRefused("expired")
    name = "" if account == _NO_ACCOUNT else account.hex()
    return Hold(hold_id.hex(), name, deadline, nonce.hex())


@lru_cache(maxsize=32)
def key_of(secret: str, purpose: str) -> bytes:
    """Return a key for the MACs of one purpose."""
    return hmac.digest(secret.encode(), f"offload.{purpose}".encode(), "sha256")
