"""The protocol between Django, the fronts and the hub: keys and tickets.

Standard library only, so that any of them can import it.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

TICKET_HEADER = "X-Offload-Ticket"
# A front that can't remember the ticket names its request by 32 hex digits of its own instead.
REQUEST_HEADER = "X-Offload-Request"
HOLD_PATH = "/_offload/hold/"
ANSWERS_PATH = "/_offload/answers"
# Prefix of the internal paths of app and hub: clients must not reach any of them.
INTERNAL_PATH = "/_offload/"

RELEASED_CHANNEL = "offload:released"
# Its value changes when Redis lost its data: then every hold is in doubt.
EPOCH_KEY = "offload:epoch"

# Seconds that a ticket outlives its deadline. In a burst on two cores requests queued for some
# seconds between the app and the hub: such a client gets its late answer, not a 404.
TICKET_GRACE = 30.0
# HMAC-SHA256 is as strong as its key: 32 characters of hex are 128 bits.
SECRET_LENGTH = 32

_VERSION = 1
# version, hold id, account's digest, deadline in ms, nonce. 49 bytes, and 32 of MAC behind it
# make 108 characters of base64 without padding: no spare bits, so one text per ticket.
_TICKET = struct.Struct(">B16s8sQ16s")
_TICKET_TEXT = re.compile(r"[A-Za-z0-9_-]{108}")
_HOLD_ID = re.compile(r"[0-9a-f]{32}")
_NO_ACCOUNT = bytes(8)


class Ticket(NamedTuple):
    """The right to wait once for one hold; `deadline` in seconds since the epoch."""

    hold_id: str
    account: str
    deadline: float
    nonce: str


class TicketRefused(Exception):
    """The ticket is forged, damaged or long past its deadline."""


class TicketUsed(TicketRefused):
    """The ticket was valid, but is already used."""


def answer_key(hold_id: str) -> str:
    return f"offload:answer:{hold_id}"


def late_key(nonce: str) -> str:
    return f"offload:late:{nonce}"


def request_key(request_id: str) -> str:
    return f"offload:request:{request_id}"


def is_request_id(text: str) -> bool:
    """Say whether a front could have named a request so (nginx' `$request_id`)."""
    return _HOLD_ID.fullmatch(text) is not None


def used_key(nonce: str) -> str:
    return f"offload:used:{nonce}"


def released_channel(hold_id: str) -> str:
    """Name the channel of one hold, for a worker that waits for nothing else."""
    return f"{RELEASED_CHANNEL}:{hold_id}"


def check_hold_id(hold_id: UUID | str) -> str:
    """Return the hold id as 32 hex digits, or raise ValueError if it is not a UUID."""
    text = hold_id.hex if isinstance(hold_id, UUID) else hold_id
    if isinstance(text, str):
        text = text.replace("-", "").lower()
        if _HOLD_ID.fullmatch(text):
            return text
    raise ValueError(f"a hold id is a uuid4(), not {hold_id!r}")


def make_ticket(secret: str, hold_id: str, *, account: str, deadline: float) -> str:
    """Sign a ticket of 108 url-safe characters.

    `deadline` is in seconds since the epoch. The account is in it as a digest: it is only counted.
    """
    content = _TICKET.pack(
        _VERSION,
        bytes.fromhex(check_hold_id(hold_id)),
        mac_of(secret, "account", account.encode())[:8] if account else _NO_ACCOUNT,
        math.ceil(deadline * 1000),
        secrets.token_bytes(16),
    )
    return urlsafe_b64encode(content + mac_of(secret, "ticket", content)).decode()


def read_ticket(secret: str, text: str, *, now: float, fallbacks: Iterable[str] = ()) -> Ticket:
    """Return what the ticket says, or raise TicketRefused; `fallbacks` are secrets good as well."""
    if not _TICKET_TEXT.fullmatch(text):
        raise TicketRefused("not a ticket")
    signed = urlsafe_b64decode(text)
    content, mac = signed[: _TICKET.size], signed[_TICKET.size :]
    if not is_mac(mac, (secret, *fallbacks), "ticket", content):
        raise TicketRefused("forged")
    version, hold_id, account, milliseconds, nonce = _TICKET.unpack(content)
    if version != _VERSION:
        raise TicketRefused("another version")
    deadline = milliseconds / 1000
    if now > deadline + TICKET_GRACE:
        raise TicketRefused("expired")
    name = "" if account == _NO_ACCOUNT else account.hex()
    return Ticket(hold_id.hex(), name, deadline, nonce.hex())


def mac_of(secret: str, purpose: str, content: bytes) -> bytes:
    """Return a MAC by a key of its own for each purpose."""
    key = hmac.digest(secret.encode(), f"offload.{purpose}".encode(), hashlib.sha256)
    return hmac.digest(key, content, hashlib.sha256)


def is_mac(mac: bytes, secrets: Iterable[str], purpose: str, content: bytes) -> bool:
    """Say whether it was made with one of the secrets."""
    return any(hmac.compare_digest(mac, mac_of(each, purpose, content)) for each in secrets)
