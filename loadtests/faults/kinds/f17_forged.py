"""F17: forged internal headers, tickets and paths."""

import base64
import hashlib
import hmac
import http.client
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

from loadtests.faults.clients import METHODS, RECEIVER
from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals, Told
from loadtests.faults.rig import Rig

NAMES = ("X-Offload-Hold", "X-Offload-Ticket", "X-Accel-Redirect", "X-Hold", "Offload-Hold",
         "X_Offload_Hold", "X-Offload-Wait", "X-Accel-Buffering", "X-Hold-Ticket",
         "X-Offload-Account")  # fmt: skip
VALUES = ("1", "/_offload/hold/1", "../../etc/passwd", "http://127.0.0.1:1/", "AAAA.BBBB.CCCC",
          "a" * 4000)  # fmt: skip
PATHS = ("/_offload/answers", "/_offload/hold/abc", "/_hold/abc", "/_offload/../admin/",
         "/_held/x?ticket=AAAA.BBBB", "/_offload/", "//_offload/answers", "/hold/abc")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attack:
    """One request; `headers` win over the ordinary ones."""

    method: str
    path: str
    headers: dict[str, str]
    body: str = ""

    @property
    def buys(self) -> bool:
        """Tell whether it is an ordinary purchase but for its headers."""
        return self.method == "POST" and self.path == "/api/v2/parcels"


@register
class Forged(Fault):
    """Nothing in a client's request can name where it is held, or whose answer it gets.

    Its control signs the hub's question to the app with the deployment's own secret, which no
    client has: that one must be honoured, and be seen to be.
    """

    id = "F17"
    title = "forged internal headers, tickets, paths"
    doses = {"short": Dose(40), "full": Dose(140)}
    controls = {"secrecy": Control("honoured", environment={})}

    def strike(self, rig: Rig) -> None:
        self.honoured: list[str] = []
        # Real holds, of both accounts: what a forged question could be answered with.
        rig.send(rig.wishes(4, synchronous=1.0, carriers=("postnl",), prefix="held")).join()
        secret = rig.stack.env["OFFLOAD_SECRET"] if self.control else "0" * 64
        attacks = list(self._attacks(rig, secret))
        rig.rng.shuffle(attacks)
        # The signed questions first: each dose has them.
        attacks.sort(key=lambda attack: not attack.body)
        for number, attack in zip(range(self.dose.requests), itertools.cycle(attacks)):
            self._attack(rig, attack, number)

    def _attacks(self, rig: Rig, secret: str) -> Iterator[Attack]:
        question = {"hold_ids": [row[0] for row in rig.database.ask("SELECT id FROM parcels_hold")]}
        for final_only in (True, False):
            body = json.dumps(question | {"final_only": final_only})
            signed = {"Authorization": sign(secret, body)}
            for path in ("/_offload/answers", "//_offload/answers"):
                yield Attack("POST", path, signed, body)
        for name, value in itertools.product(NAMES, VALUES):
            yield Attack("POST", "/api/v2/parcels", {name: value})
            yield Attack("GET", "/api/v2/parcels/1", {name: value})
        for path, method in itertools.product(PATHS, ("GET", "POST")):
            yield Attack(method, path, {})

    def _attack(self, rig: Rig, attack: Attack, number: int) -> None:
        account, body = number % 2, attack.body
        told = Told(f"{rig.prefix}forged-{number}", account, time.time(), synchronous=attack.buys)
        if attack.buys:
            rig.more_told.append(told)
            parcel = {"shipment": {"id": METHODS["postnl"]}, "request_label": True}
            body = json.dumps({"parcel": RECEIVER | parcel | {"order_number": told.intent}})
        login = base64.b64encode(rig.logins[account].encode()).decode()
        sent = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", rig.port, timeout=40)
        try:
            connection.request(attack.method, attack.path, body or None, sent | attack.headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        told.status, told.answered_at = answer.status, time.time()
        if attack.buys and told.acknowledged:
            told.parcels = [json.loads(text)["parcel"]]  # I6 and I7 look whose it is
        if not _is_plain(attack, answer.status, text):
            what = f"{attack.method} {attack.path} {sorted(attack.headers)}"
            self.honoured.append(f"{what}: {answer.status} {text[:60]!r}")

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        first = self.honoured[0][:150] if self.honoured else ""
        said = f"{len(self.honoured)} {first}".strip()
        return [Measure("honoured", said, "0", not self.honoured)]


def sign(secret: str, body: str) -> str:
    """Sign a question as the hub does; written anew here, as its attacker would."""
    now = str(int(time.time()))
    key = hmac.digest(secret.encode(), b"offload.question", hashlib.sha256)
    mac = hmac.digest(key, f"{now}\n{body}".encode(), hashlib.sha256)
    return f"Offload {now}:{mac.hex()}"


def _is_plain(attack: Attack, status: int, text: bytes) -> bool:
    """Tell whether the answer is what it would be without the forgery."""
    if attack.buys:  # held and answered as ever; with what, the invariants look at
        return status == 400 or 200 <= status < 300
    if attack.path.startswith("/api/"):
        return status in (200, 400, 404) and b'"answers"' not in text
    return status in (301, 302, 400, 401, 403, 404, 405)
