"""F17: forged internal headers, tickets and paths."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
from collections.abc import Iterator

from loadtests.faults.clients import METHODS, RECEIVER
from loadtests.faults.fault import Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig

NAMES = ("X-Offload-Hold", "X-Offload-Ticket", "X-Accel-Redirect", "X-Hold", "Offload-Hold",
         "X_Offload_Hold", "X-Offload-Wait", "X-Accel-Buffering", "X-Hold-Ticket",
         "X-Offload-Account")  # fmt: skip
VALUES = ("1", "/_offload/hold/1", "../../etc/passwd", "http://127.0.0.1:1/", "AAAA.BBBB.CCCC",
          "a" * 4000)  # fmt: skip
PATHS = ("/_offload/answers", "/_offload/hold/abc", "/_hold/abc", "/_offload/../admin/",
         "/_held/x?ticket=AAAA.BBBB", "/_offload/", "//_offload/answers", "/hold/abc")  # fmt: skip


Attack = tuple[str, str, dict[str, str]]


@register
class Forged(Fault):
    """Nothing in a client's request can name where it is held, or whose answer it gets.

    It has no control: the guards are several, each with its own in the tests of `offload`.
    """

    id = "F17"
    title = "forged internal headers, tickets, paths"
    doses = {"short": Dose(40), "full": Dose(140)}
    honoured: list[str]
    tried = 0

    def strike(self, rig: Rig) -> None:
        self.honoured = []
        attacks = itertools.cycle(self._attacks())
        for number, (method, path, headers) in zip(range(self.dose.requests), attacks):  # noqa: B905
            body, intent = None, f"forged-{number}"
            if method == "POST" and path == "/api/v2/parcels":
                parcel = {"shipment": {"id": METHODS["postnl"]}, "request_label": True}
                body = json.dumps({"parcel": RECEIVER | parcel | {"order_number": intent}})
            self._attack(rig, (method, path, headers), body, intent)

    def _attacks(self) -> Iterator[Attack]:
        for name, value in itertools.product(NAMES, VALUES):
            yield "POST", "/api/v2/parcels", {name: value}
            yield "GET", "/api/v2/parcels/1", {name: value}
        for path, method in itertools.product(PATHS, ("GET", "POST")):
            yield method, path, {}

    def _attack(self, rig: Rig, attack: Attack, body: str | None, intent: str) -> None:
        method, path, headers = attack
        self.tried += 1
        login = base64.b64encode(rig.logins[self.tried % 2].encode()).decode()
        sent = {"Authorization": f"Basic {login}", "Content-Type": "application/json", **headers}
        connection = http.client.HTTPConnection("127.0.0.1", rig.port, timeout=20)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if not _is_plain(method, path, answer.status, text, intent if body else ""):
            self.honoured.append(f"{method} {path} {headers}: {answer.status} {text[:80]!r}")

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        first = self.honoured[0][:150] if self.honoured else ""
        return [
            Measure("forgeries tried", self.tried, "-", True),
            Measure("honoured", f"{len(self.honoured)} {first}".strip(), "0", not self.honoured),
        ]


def _is_plain(method: str, path: str, status: int, text: bytes, intent: str) -> bool:
    """Tell whether the answer is what it would be without the forgery."""
    if intent:  # held and answered as ever, with its own parcel
        return status == 400 or json.loads(text)["parcel"]["order_number"] == intent
    if path.startswith("/api/"):
        return status in (200, 400, 404) and b'"answers"' not in text
    return status in (301, 302, 400, 401, 403, 404, 405)
