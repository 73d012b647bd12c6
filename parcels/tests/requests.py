"""Requests as a shop makes them, without a socket."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from django.test import Client

from parcels.models import Account, ApiKey
from parcels.openapi.tests.contract import check_answer

if TYPE_CHECKING:
    # What the test client returns: a response with `.json()`; it exists in the stubs only.
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer

BODY: dict[str, Any] = {
    "name": "Test Receiver",
    "address": "Havenstraat",
    "house_number": "12",
    "city": "Utrecht",
    "postal_code": "3511 AB",
    "country": "NL",
    "email": "a@b.nl",
    "weight": "2.000",
}


def body(**changes: Any) -> dict[str, Any]:
    """Return a valid parcel with changes; a change to `...` leaves the field out."""
    return {name: value for name, value in (BODY | changes).items() if value is not ...}


def basic(public_key: str, secret_key: str) -> str:
    """Return an Authorization header."""
    return "Basic " + base64.b64encode(f"{public_key}:{secret_key}".encode()).decode()


class Shop:
    """A client with an account's keys. Every answer must be one that the OpenAPI document has."""

    def __init__(self, account: Account) -> None:
        self.account = account
        key, secret = ApiKey.generate(account)
        self.authorization = basic(key.public_key, secret)
        self.client = Client(raise_request_exception=False)

    def get(self, path: str, **headers: str) -> Answer:
        """GET below /api/v2/."""
        return self.call("GET", path, headers)

    def post(self, path: str, payload: Any, **headers: str) -> Answer:
        """POST JSON (or bytes as they are) below /api/v2/."""
        return self.call("POST", path, headers, payload)

    def put(self, path: str, payload: Any, **headers: str) -> Answer:
        """PUT JSON below /api/v2/."""
        return self.call("PUT", path, headers, payload)

    def patch(self, path: str, payload: Any, **headers: str) -> Answer:
        """PATCH JSON below /api/v2/."""
        return self.call("PATCH", path, headers, payload)

    def delete(self, path: str, **headers: str) -> Answer:
        """DELETE below /api/v2/."""
        return self.call("DELETE", path, headers)

    def call(self, method: str, path: str, headers: dict[str, str], payload: Any = None) -> Answer:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = self.client.generic(
            method,
            f"/api/v2/{path}",
            data=b"" if payload is None else data,
            content_type="application/json",
            headers={"Authorization": self.authorization} | named,
        )
        check_answer(method, f"/api/v2/{path}", response)
        return response
