"""What every wire format has: routes, and one form for its errors."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from carriers.simulator.bookings import Booking
from carriers.simulator.ledger import LedgerError
from carriers.simulator.parcel import Malformed, Refusal

if TYPE_CHECKING:
    from carriers.simulator.carrier import Carrier

# The one credential that every carrier declines, so that a client can try its wrong ones.
INVALID = "invalid"


class Unauthorized(Exception):
    """No credentials, or the one that is always wrong."""


def require(credential: str | None) -> str:
    """Return the credential's owner; raise Unauthorized unless it is there and not `invalid`."""
    if not credential or credential == INVALID:
        raise Unauthorized
    return _owner(credential)


# Why 1,024: a benchmark's accounts; one that is not kept costs two microseconds.
@lru_cache(1024)
def _owner(credential: str) -> str:
    """Hash a credential: the ledger, which names its bookings' owners, is kept and shown."""
    # surrogatepass: XML and Basic can't, but JSON's neighbours may bring half a pair in a header.
    return blake2b(credential.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


class Shape(ABC):
    """A carrier's wire format."""

    refused_status = 400

    def __init__(self, carrier: Carrier) -> None:
        self.carrier = carrier

    @abstractmethod
    def routes(self) -> list[Route]:
        """Return the carrier's endpoints."""

    def error(self, status: int, code: str, message: str) -> Response:
        """Return an error of a whole call in this format; by default in JSON."""
        return JSONResponse({"code": code, "message": message}, status)

    def label_id(self, booking: Booking) -> str:
        """Return what this format's clients know a label by, beside its tracking number."""
        return booking.shipment_id

    def exception_handlers(self) -> Mapping[Any, Callable[[Request, Exception], Response]]:
        """Return how this format says no."""
        return {
            Unauthorized: lambda _, error: self.unauthorized(),
            Malformed: lambda _, error: self.malformed(str(error)),
            LedgerError: lambda _, error: self.error(500, "INTERNAL", "Something went wrong"),
        }

    def unauthorized(self) -> Response:
        """Return the answer to wrong or missing credentials."""
        return self.error(401, "UNAUTHORIZED", "Credentials are missing or wrong")

    def malformed(self, message: str) -> Response:
        """Return the answer to a body that isn't of this format."""
        return self.error(400, "MALFORMED", message)

    def refused(self, refusal: Refusal) -> Response:
        """Return a documented refusal."""
        return self.error(self.refused_status, refusal.code, refusal.message)


async def json_object(request: Request) -> dict[str, Any]:
    """Read a JSON object from a body; raises Malformed."""
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise Malformed("the body is not JSON") from None
    if not isinstance(body, dict):
        raise Malformed("the body is not an object")
    return body
