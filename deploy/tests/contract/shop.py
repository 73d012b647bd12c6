"""A shop with its keys at one deployment."""

import base64
import json
import threading
from typing import Any

from deploy.tests.contract.wire import Connection, request
from deploy.welcome import ADDRESS

# "Unstamped letter" answers in 20 ms, Tortoise Post in what the suite sets (conftest.LATENCY).
QUICK, SLOW = 8, 10


def order(method=SLOW, *, slower=0.0, company="", **wishes):
    """Return one parcel that asks for its label in the answer; `slower` in seconds."""
    company = f"SIM:SLOW:{slower}" if slower else company
    return {
        **ADDRESS,
        "request_label": True,
        "shipment": {"id": method},
        "company_name": company,
        **wishes,
    }


class Shop:
    """Makes requests as this account; each on a connection of its own unless one is given."""

    def __init__(self, port, public_key, secret_key):
        self.port = port
        login = base64.b64encode(f"{public_key}:{secret_key}".encode()).decode()
        self.login = ("Authorization", f"Basic {login}")

    def bytes(self, method, path, body=None, *, headers=(), version="HTTP/1.1", login=True):
        """Return a request's bytes; `path` is below /api/v2/ unless it begins with a slash."""
        path = path if path.startswith("/") else f"/api/v2/{path}"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        own = [self.login] if login else []
        return request(
            method, path, port=self.port, headers=[*own, *headers], body=data, version=version
        )

    def ask(self, method, path, body=None, **how):
        with Connection(self.port) as connection:
            return connection.ask(self.bytes(method, path, body, **how))

    def get(self, path, **how):
        return self.ask("GET", path, **how)

    def post(self, *orders, path="parcels", **how):
        """Create one parcel, or several in the form for several."""
        return self.ask("POST", path, body_of(*orders), **how)

    def parcel(self, parcel_id):
        return self.get(f"parcels/{parcel_id}").json["parcel"]

    def total(self):
        """Return the newest parcel's id: ids are only ever added."""
        parcels = self.get("parcels").json["parcels"]
        return parcels[0]["id"] if parcels else 0


def body_of(*orders):
    return {"parcel": orders[0]} if len(orders) == 1 else {"parcels": list(orders)}


def at_once(*calls):
    """Make all calls at the same time; return their results, or what they raised, in order."""
    results: list[Any] = [None] * len(calls)

    def run(place):
        try:
            results[place] = calls[place]()
        except Exception as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


class Later:
    """A request that is under way while the test does something else."""

    def __init__(self, call):
        self._result = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call):
        try:
            self._result = call()
        except Exception as error:
            self._result = error

    def result(self):
        self._thread.join()
        return self._result
