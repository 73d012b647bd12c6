"""What Django, the fronts and the hub tell one another: holds and answers.

Standard library only, so that any of them can import it.
"""

import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

_HOLD_ID = re.compile(r"[0-9a-f]{32}")


class Hold(NamedTuple):
    """What a client waits for, and until when; `deadline` in seconds since the epoch.

    `nonce` is its ticket's, where it comes by one: the right to wait once.
    """

    hold_id: str
    account: str
    deadline: float
    nonce: str = ""


@dataclass(slots=True)
class Client:
    """The client of a request in HoldMiddleware, where OffloadMiddleware says that it is held.

    In one process this needs no ticket. `late` is its packed late answer.
    """

    arrived_at: float
    hold: Hold | None = None
    late: bytes = b""


def is_request_id(text: str) -> bool:
    """Say whether a front could have named a request so (nginx' `$request_id`)."""
    return _HOLD_ID.fullmatch(text) is not None


def check_hold_id(hold_id: UUID | str) -> str:
    """Return the hold id as 32 hex digits, or raise ValueError if it is not a UUID."""
    text = hold_id.hex if isinstance(hold_id, UUID) else hold_id
    if isinstance(text, str):
        text = text.replace("-", "").lower()
        if _HOLD_ID.fullmatch(text):
            return text
    raise ValueError(f"a hold id is a uuid4(), not {hold_id!r}")


Headers = tuple[tuple[str, str], ...]
# ASGI's.
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientGone(Exception):
    """The client has disconnected"""


class Answer(NamedTuple):
    """Status, headers in order (Set-Cookie may repeat), and the body's bytes."""

    status: int
    headers: Headers
    body: bytes


# The last resort: Redis has lost the late answer and the app can't be reached.
NOTHING_KNOWN = Answer(202, (("Content-Type", "application/json"), ("Retry-After", "5")), b"{}")

# Given at once where the app has an outcome, and no answer can be made of it.
NO_ANSWER = Answer(500, (("Content-Type", "text/plain; charset=utf-8"),), b"Server Error\n")

# RFC 9110, section 7.6.1, and headers that each server sets itself.
_NOT_KEPT = frozenset([
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
    "te", "trailer", "trailers", "transfer-encoding", "upgrade", "date", "server",
    "content-length"
])  # fmt: skip
_INTERNAL_PREFIXES = ("x-offload-", "x-accel-")
# Servers that are given a body with one of these break the connection.
BODILESS = frozenset({204, 304})

# Headers of the late answer itself, not of the request: its location, its body.
_LATE_ONLY = frozenset([
    "location", "retry-after", "preference-applied", "content-length", "content-type",
    "content-encoding", "content-language", "content-disposition", "content-range",
    "content-location", "content-digest", "repr-digest", "etag", "last-modified", "link", "refresh"
])  # fmt: skip


def is_internal(name: str) -> bool:
    """Say whether a header is internal, with dashes or with underscores."""
    plain = name.lower().replace("_", "-")
    return plain.startswith(_INTERNAL_PREFIXES) or plain == "x-sendfile"


def public_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return the headers that a client may see; Content-Length is counted again at sending."""
    return tuple(
        (name, value)
        for name, value in headers
        if name.lower() not in _NOT_KEPT and not is_internal(name)
    )


def merge(answer: Answer, late: Answer | None) -> Answer:
    """Put a released answer in the late one's place.

    The late answer went through the middleware stack, the released one did not: what the stack
    added stays, the late answer's own headers are removed, and the released headers win.
    """
    headers = public_headers(answer.headers)
    if late is None:
        return answer._replace(headers=headers)
    own = {name.lower() for name, _ in headers} - {"set-cookie", "vary"} | _LATE_ONLY
    kept = (each for each in public_headers(late.headers) if each[0].lower() not in own)
    merged, vary = [], dict[str, str]()
    for name, value in (*kept, *headers):
        if name.lower() == "vary":
            vary |= {field.strip().lower(): field.strip() for field in value.split(",")}
        else:
            merged.append((name, value))
    if vary:
        merged.append(("Vary", ", ".join(vary.values())))
    return answer._replace(headers=tuple(merged))


def encode_answer(answer: Answer, *, packed: bool = False) -> bytes:
    """Return the answer as JSON: `body` is text, or base64 where it is not UTF-8.

    A late answer is `packed` small: the hub keeps one per hold in memory, mostly unread.
    """
    shape: dict[str, Any] = {"status": answer.status, "headers": answer.headers}
    try:
        shape["body"] = answer.body.decode()
    except UnicodeDecodeError:
        shape["base64"] = b64encode(answer.body).decode()
    text = json.dumps(shape).encode()
    # Level 1: a parcel's JSON shrinks to a third in 30 µs; level 9 gains 5 % more for double.
    return zlib.compress(text, 1) if packed else text


def decode_answer(stored: Any) -> Answer:
    """Return the answer, encoded or packed, or as JSON values; ValueError if it is none of them."""
    try:
        if isinstance(stored, bytes):
            stored = json.loads(stored if stored.startswith(b"{") else zlib.decompress(stored))
        body = b64decode(stored["base64"]) if "base64" in stored else stored["body"].encode()
        headers = tuple((str(name), str(value)) for name, value in stored["headers"])
        return Answer(int(stored["status"]), headers, body)
    except (AttributeError, KeyError, TypeError, zlib.error) as error:
        raise ValueError(f"not an answer: {error!r}") from error


async def send_answer(send: Send, answer: Answer) -> None:
    """Send the whole answer over ASGI."""
    headers = [(k.lower().encode(), v.encode("latin-1").strip()) for k, v in answer.headers]
    body = b""
    if answer.status not in BODILESS:
        body = answer.body
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
