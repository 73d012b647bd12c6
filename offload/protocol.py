"""The protocol between Django, the fronts and the hub: keys, tickets, signed requests.

Standard library only, so that any of them can import it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import re
import secrets
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from offload.answer import Answer, from_json, to_json

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
# Seconds by which the clocks of the hub's and the app's machines may differ.
CLOCK_SKEW = 30.0
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
        _account_digest(secret, account),
        math.ceil(deadline * 1000),
        secrets.token_bytes(16),
    )
    return urlsafe_b64encode(content + _mac(secret, "ticket", content)).decode()


def read_ticket(secret: str, text: str, *, now: float, fallbacks: Iterable[str] = ()) -> Ticket:
    """Return what the ticket says, or raise TicketRefused; `fallbacks` are secrets good as well."""
    if not _TICKET_TEXT.fullmatch(text):
        raise TicketRefused("not a ticket")
    signed = urlsafe_b64decode(text)
    content, mac = signed[: _TICKET.size], signed[_TICKET.size :]
    if not _is_mac(mac, (secret, *fallbacks), "ticket", content):
        raise TicketRefused("forged")
    version, hold_id, account, milliseconds, nonce = _TICKET.unpack(content)
    if version != _VERSION:
        raise TicketRefused("another version")
    deadline = milliseconds / 1000
    if now > deadline + TICKET_GRACE:
        raise TicketRefused("expired")
    name = "" if account == _NO_ACCOUNT else account.hex()
    return Ticket(hold_id.hex(), name, deadline, nonce.hex())


def sign_question(secret: str, body: bytes, *, now: float) -> str:
    """Return the Authorization header of a question to the app.

    Not an `X-Offload-` header: fronts blank those on the way in.
    """
    timestamp = str(int(now))
    return f"Offload {timestamp}:{_mac(secret, 'question', _question(timestamp, body)).hex()}"


def question_is_signed(
    secret: str, authorization: str, body: bytes, *, now: float, fallbacks: Iterable[str] = ()
) -> bool:
    """Say whether the header was made with our secret, for this body, half a minute ago at most.

    `fallbacks` are secrets good as well.
    """
    match = re.fullmatch(r"Offload (\d{1,12}):([0-9a-f]{64})", authorization, re.ASCII)
    if match is None or abs(now - int(match[1])) > CLOCK_SKEW:
        return False
    content = _question(match[1], body)
    return _is_mac(bytes.fromhex(match[2]), (secret, *fallbacks), "question", content)


def encode_question(hold_ids: list[str], *, final_only: bool) -> bytes:
    return json.dumps({"hold_ids": hold_ids, "final_only": final_only}).encode()


def decode_question(body: bytes) -> tuple[list[str], bool]:
    """Return hold ids and whether only final answers are wanted; ValueError if it is neither."""
    question = json.loads(body)
    if not isinstance(question, dict) or not isinstance(question.get("hold_ids"), list):
        raise ValueError("a question has a list of hold_ids")
    hold_ids = [check_hold_id(str(hold_id)) for hold_id in question["hold_ids"]]
    return hold_ids, bool(question.get("final_only", True))


def encode_answers(answers: Mapping[str, Answer]) -> bytes:
    return json.dumps({hold_id: to_json(answer) for hold_id, answer in answers.items()}).encode()


def decode_answers(body: bytes) -> dict[str, Answer]:
    """Return answers by hold id; ValueError if the body is something else."""
    answers = json.loads(body)
    if not isinstance(answers, dict):
        raise ValueError("answers are an object by hold id")
    return {hold_id: from_json(answer) for hold_id, answer in answers.items()}


def _key(secret: str, purpose: str) -> bytes:
    return hmac.digest(secret.encode(), f"offload.{purpose}".encode(), hashlib.sha256)


def _mac(secret: str, purpose: str, content: bytes) -> bytes:
    return hmac.digest(_key(secret, purpose), content, hashlib.sha256)


def _is_mac(mac: bytes, secrets: Iterable[str], purpose: str, content: bytes) -> bool:
    return any(hmac.compare_digest(mac, _mac(each, purpose, content)) for each in secrets)


def _question(timestamp: str, body: bytes) -> bytes:
    return timestamp.encode() + b"\n" + body


def _account_digest(secret: str, account: str) -> bytes:
    return _mac(secret, "account", account.encode())[:8] if account else _NO_ACCOUNT
