"""Limits on requests to an ASGI server without a front.

    application = Intake(HoldMiddleware(…))

A body is read before its client is authenticated: without limits a client needs no key to fill
memory and disk. A front has its own limits (nginx' client_max_body_size, limit_conn). Under uvicorn
idle connections end, too.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any

from offload.idle import watch
from offload.keys import KEEPS_PLACE, LEAVE_PLACE
from offload.protocol import Answer, Message, Receive, Send, send_answer

# Bytes: Django's own limit for a body that is no file.
MAX_BODY = 2_621_440
# Seconds for a whole body: enough for 2 MB over a mobile network, not for a byte a minute.
DEADLINE = 30.0
# A body over this many bytes needs a place, of which a process has few, until it is complete, and
# until its request has a slot where HoldMiddleware has the requests queue for one: the total of
# those without a slot is at most 32 x MAX_BODY. The many small bodies don't queue behind them.
LARGE = 131_072
PLACES = 32

# (status, path, message) -> body
Words = Callable[[int, str, str], bytes]


class Refused(Exception):
    """The request ends with this status and message."""

    def __init__(self, status: int, message: str, *headers: tuple[str, str]) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


def plain_words(status: int, path: str, message: str) -> bytes:
    """Return the body of a refusal, as JSON."""
    return json.dumps({"error": message}).encode()


# No `Connection: close`: with unread bytes the close is a reset, which can overtake the answer. The
# server reads the rest, for idle.LIMIT seconds, and discards it.
_TOO_LARGE = (413, "The body is too large.")
_TWO_LENGTHS = (400, "A body has one length or comes in chunks.", ("connection", "close"))
_TOO_SLOW = (408, "The body did not arrive in time.", ("connection", "close"))


class Intake:
    """Answers 400, 408, 413 and 429 by itself; around everything else.

    At most `connections` requests of one address are under way in a process; 0 is no limit, which
    it must be where all clients come by one balancer.
    """

    def __init__(
        self,
        app: Callable[[Any, Any, Any], Any],
        *,
        max_body: int = MAX_BODY,
        deadline: float = DEADLINE,
        connections: int = 0,
        places: int = PLACES,
        words: Words = plain_words,
    ) -> None:
        self._app = app
        self._max_body = max_body
        self._deadline = deadline
        self._connections = connections
        self._places = asyncio.Semaphore(places)
        self._words = words
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            watch()
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        address = _address(scope) if self._connections else ""
        self._under_way[address] += 1
        scope = {**scope, "headers": list(scope["headers"])}
        end = asyncio.get_running_loop().time() + self._deadline
        body = _Body(receive, scope, self._max_body, end, self._places)
        try:
            if address and self._under_way[address] > self._connections:
                raise Refused(429, "Too many connections from one address.", ("retry-after", "1"))
            if {b"transfer-encoding", b"content-length"} <= {name for name, _ in scope["headers"]}:
                raise Refused(*_TWO_LENGTHS)
            if any(int(n) > self._max_body for k, n in scope["headers"] if k == b"content-length"):
                raise Refused(*_TOO_LARGE)
            if sum(len(v) for k, v in scope["headers"] if k == b"content-type") > 255:
                raise Refused(400, "The Content-Type is too long.")  # Django takes the square of it
            await self._app(scope, body.receive, send)
        except Refused as refused:
            words = self._words(refused.status, scope["path"], refused.message)
            said = (("content-type", "application/json"), *refused.headers)
            await send_answer(send, Answer(refused.status, said, words))
        finally:
            if body.has_place:
                body.leave()
            self._under_way[address] -= 1
            if not self._under_way[address]:
                del self._under_way[address]


@dataclass(slots=True)
class _Body:
    """One request's body on its way to the app; `end` is when it must be there, by the loop."""

    source: Receive
    scope: Message
    max_body: int
    end: float
    places: asyncio.Semaphore
    size: int = 0
    has_place: bool = False
    needs_none: bool = False
    complete: bool = False

    async def receive(self) -> Message:
        """Pass on what has come, and raise Refused for what is too much or too late."""
        if self.complete:
            return await self.source()
        try:
            async with asyncio.timeout_at(self.end):
                message = await self.source()
                self.size += len(message.get("body", b""))
                if self.size > self.max_body:
                    raise Refused(*_TOO_LARGE)
                if self.size > LARGE and not (self.has_place or self.needs_none):
                    await self.places.acquire()
                    self.has_place = True
                    self.scope[LEAVE_PLACE] = self.leave
        except TimeoutError:
            raise Refused(*_TOO_SLOW) from None
        if not message.get("more_body", False):
            self.complete = True
            # A body that came in chunks gets its length: REST framework reads none without one, and
            # Django looks at the headers when the body is there.
            if all(name != b"content-length" for name, _ in self.scope["headers"]):
                self.scope["headers"].append((b"content-length", str(self.size).encode()))
            if self.has_place and KEEPS_PLACE not in self.scope:
                self.leave()
        return message

    def leave(self) -> None:
        """Give the place back for good: in a slot, to wait for another could block both."""
        if self.has_place:
            self.places.release()
        self.has_place, self.needs_none = False, True


def _address(scope: Message) -> str:
    """Return what counts as one client: an IPv4 address, or half an IPv6 address."""
    host: str = (scope.get("client") or [""])[0]
    try:
        address = IPv6Address(host)
    except ValueError:  # of a Unix socket there is none: its peer counts the connections
        return host
    return host if address.ipv4_mapped else address.packed[:8].hex()
