"""An HTTP answer as plain values: how it is stored, and how it takes the late answer's place."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, NamedTuple

Headers = tuple[tuple[str, str], ...]


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
_HOP_BY_HOP = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "trailers",
        "transfer-encoding",
        "upgrade",
        "date",
        "server",
    ]
)
_INTERNAL_PREFIXES = ("x-offload-", "x-accel-")
_INTERNAL = frozenset({"x-sendfile"})

# Headers of the late answer itself, not of the request: its location, its body.
_LATE_ONLY = frozenset(
    [
        "location",
        "retry-after",
        "preference-applied",
        "content-length",
        "content-type",
        "content-encoding",
        "content-language",
        "content-disposition",
        "content-range",
        "content-location",
        "etag",
        "last-modified",
    ]
)


def is_internal(name: str) -> bool:
    """Say whether a header is internal, with dashes or with underscores."""
    plain = name.lower().replace("_", "-")
    return plain.startswith(_INTERNAL_PREFIXES) or plain in _INTERNAL


def public_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return the headers that a client may see; Content-Length is counted again at sending."""
    return tuple(
        (name, value)
        for name, value in headers
        if name.lower() not in _HOP_BY_HOP
        and name.lower() != "content-length"
        and not is_internal(name)
    )


def merge(answer: Answer, late: Answer | None) -> Answer:
    """Put a released answer in the late one's place.

    The late answer went through the middleware stack, the released one did not: what the stack
    added stays, the late answer's own headers are removed, and the released headers win.
    """
    headers = public_headers(answer.headers)
    if late is None:
        return answer._replace(headers=headers)
    own = {name.lower() for name, _ in headers} - {"set-cookie", "vary"}
    kept = tuple(
        (name, value)
        for name, value in public_headers(late.headers)
        if name.lower() not in own | _LATE_ONLY
    )
    return answer._replace(headers=_one_vary(kept + headers))


def _one_vary(headers: Headers) -> Headers:
    fields: dict[str, str] = {}
    for name, value in headers:
        if name.lower() == "vary":
            fields |= {field.strip().lower(): field.strip() for field in value.split(",")}
    rest = tuple(header for header in headers if header[0].lower() != "vary")
    return (*rest, ("Vary", ", ".join(fields.values()))) if fields else rest


def to_json(answer: Answer) -> dict[str, Any]:
    """Return the answer as JSON values: `body` is text, or base64 where it is not UTF-8."""
    shape: dict[str, Any] = {"status": answer.status, "headers": answer.headers}
    try:
        return shape | {"body": answer.body.decode()}
    except UnicodeDecodeError:
        return shape | {"base64": b64encode(answer.body).decode()}


def from_json(shape: Any) -> Answer:
    """Return the answer; ValueError if it is none."""
    try:
        body = b64decode(shape["base64"]) if "base64" in shape else shape["body"].encode()
        headers = tuple((str(name), str(value)) for name, value in shape["headers"])
        return Answer(int(shape["status"]), headers, body)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not an answer: {error!r}") from error


def encode_answer(answer: Answer) -> bytes:
    return json.dumps(to_json(answer)).encode()


def decode_answer(text: bytes) -> Answer:
    """Return the stored answer; ValueError if it is none."""
    return from_json(json.loads(text))


def pack(answer: Answer) -> bytes:
    """Encode a late answer small: the hub keeps one per hold in memory, mostly unread."""
    # Level 1: a parcel's JSON shrinks to a third in 30 µs; level 9 gains 5 % more for double.
    return zlib.compress(encode_answer(answer), 1)


def unpack(packed: bytes) -> Answer:
    """Return the packed answer; ValueError if it is none."""
    try:
        return decode_answer(zlib.decompress(packed))
    except zlib.error as error:
        raise ValueError(f"not a packed answer: {error}") from error
