"""The requests that streams send, and what a good answer to each is."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deploy.welcome import ADDRESS as RECEIVER
from loadtests.metrics import OK
from loadtests.wire import Answer

READ = "/api/v2/parcels/statuses"
# The most that a batch may have.
BATCH = 100


@dataclass(frozen=True, slots=True)
class Call:
    """Bytes for the wire, and the name of the judge of their answer."""

    request: bytes
    judge: str


def make(kind: str, *, host: str, login: str, method: int = 8, parcel: int = 0) -> Call:
    """Return the call of that kind; `login` is `public:secret`, `method` the shipping method.

    Kinds: `label` (the label in the answer), `async` (create, label later), `batch` (so a hundred),
    `wait` (for the label of `parcel`), `read` (cheap, with login), `health` (the app's, without)
    and `hub` (the hub's).
    """
    if kind not in KINDS:
        raise ValueError(f"no call of kind {kind!r}: there are {', '.join(KINDS)}")
    wish, path, judge = KINDS[kind]
    body = b""
    if wish:
        one = RECEIVER | {"shipment": {"id": method}, wish: True}
        asked = {"parcels": [one] * BATCH} if kind == "batch" else {"parcel": one}
        body = json.dumps(asked).encode()
    known = login if path.startswith("/api/") else ""
    return Call(request(path.format(parcel=parcel), body, host, login=known), judge)


# kind: what the parcel asks for, path, judge
KINDS: Mapping[str, tuple[str, str, str]] = {
    "label": ("request_label", "/api/v2/parcels", "label"),
    "async": ("request_label_async", "/api/v2/parcels", "success"),
    "batch": ("request_label_async", "/api/v2/parcels", "success"),
    "wait": ("", "/api/v2/parcels/{parcel}?wait=10", "success"),
    "read": ("", READ, "success"),
    "health": ("", "/healthz", "success"),
    "hub": ("", "/healthz", "process"),
    "hello": ("", "/", "success"),
}


def request(path: str, body: bytes, host: str, *, login: str = "") -> bytes:
    """Write a request out, a POST where there is a body; `login` is an account's keys."""
    lines = [f"{'POST' if body else 'GET'} {path} HTTP/1.1", f"Host: {host}"]
    if login:
        lines.append(f"Authorization: Basic {base64.b64encode(login.encode()).decode()}")
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "\r\n"]).encode() + body


def _label(answer: Answer) -> str:
    """A 200 without a label is no success to a shop that prints it."""
    if answer.status != 200:
        return f"http {answer.status}"
    try:
        parcel = json.loads(answer.body)["parcel"]
        return OK if parcel["label"] else f"no label ({parcel['status']['id']})"
    except (ValueError, KeyError, TypeError):
        return "unreadable answer"


JUDGES: Mapping[str, Callable[[Answer], str]] = {
    "label": _label,
    # The hub's own words, "ok, process 4711": the samples show which of several it was.
    "process": lambda answer: (
        answer.body.decode().strip() if answer.status == 200 else f"http {answer.status}"
    ),
    "success": lambda answer: OK if answer.status in (200, 201) else f"http {answer.status}",
}
