"""Holding in process: an ASGI middleware around Django, with nothing else to install.

    application = HoldMiddleware(get_asgi_application(), redis_url=…, resolve=…)

A limited number of requests is in Django's threads; clients that wait for a slot, for a release or
because of a slow connection wait in the event loop and cost a few kilobytes.
"""

import asyncio
import functools
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from offload.counting import here
from offload.doubts import Resolve
from offload.keys import CLIENT, KEEPS_PLACE, LEAVE_PLACE
from offload.lifespan import DRAIN_SECONDS, Lifespan
from offload.protocol import Client, Message, Receive, Send, is_internal, send_answer
from offload.waiting import MAX_HOLDS, MAX_HOLDS_PER_ACCOUNT, Waiters

# Any: frameworks write these types in their own ways.
App = Callable[[Any, Any, Any], Awaitable[None]]

# Requests in Django at once, each a thread and a database connection. Short requests keep two
# cores busy with far fewer; 32 leaves room for some slow queries, and PostgreSQL's 100
# connections for three such processes.
MAX_CONCURRENCY = 32
# Bytes of a request or response kept while its client is slow. Django's own limit for bodies in
# memory: what is larger goes through a slot of its own kind, in pieces.
BUFFER = 2_621_440


class HoldMiddleware:
    """Admit requests, and hold the clients for which OffloadMiddleware asks it to.

    `resolve` asks the app when Redis is in doubt. `max_concurrency`, `max_holds` and
    `max_holds_per_account` are per process. A process that must stop keeps its clients for
    `drain_seconds` seconds; give its server more time than that to stop.
    """

    def __init__(
        self,
        app: App,
        *,
        redis_url: str,
        resolve: Resolve | None = None,
        max_concurrency: int = MAX_CONCURRENCY,
        max_holds: int = MAX_HOLDS,
        max_holds_per_account: int = MAX_HOLDS_PER_ACCOUNT,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self._app = app
        self._waiters = Waiters(
            redis_url,
            resolve=resolve,
            counts=here(),
            max_holds=max_holds,
            max_holds_per_account=max_holds_per_account,
        )
        self._lifespan = Lifespan(self._waiters, drain_seconds)
        self._slots = asyncio.Semaphore(max_concurrency)
        # A body over BUFFER is read inside its slot, at its client's speed: such clients have
        # separate slots.
        self._slots_for_large = asyncio.Semaphore(max(1, max_concurrency // 4))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan.live(self._app, scope, receive, send)
            return
        request = Request(receive)
        scope[KEEPS_PLACE] = True
        # As if the client had sent none of our internal ones. In Intake's scope: it adds a length.
        headers = [(k, v) for k, v in scope["headers"] if not is_internal(k.decode("latin-1"))]
        scope["headers"] = headers
        size = 0
        while scope["type"] == "http" and not request.complete and size <= BUFFER:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            request.messages.append(message)
            size += len(message.get("body", b""))
            request.complete = not message.get("more_body", False)
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope.get("http_version", "1.1") in {"1.0", "1.1"}:
            send = functools.partial(self._send, send)
        # Before the queue for a slot: its client waits there, too.
        client = scope[CLIENT] = Client(time.monotonic())
        response = Response(send, request, client)
        slots = self._slots if request.complete else self._slots_for_large
        queued = slots.locked()
        async with slots:
            if queued and await request.is_gone():
                return
            if LEAVE_PLACE in scope:  # a large body's
                scope[LEAVE_PLACE]()
            await self._app(scope, request.receive, response.send)
        if client.hold is None:
            await response.flush()
            return
        del message, request, response, scope, headers  # kept for each client otherwise
        if not self._waiters.tasks:  # the server knows no lifespan
            self._waiters.start()
        answer = await self._waiters.park(client.hold, client.late, receive)
        if answer is not None:
            await send_answer(send, answer)

    async def _send(self, send: Send, message: Message) -> None:
        """Close the connection with each answer of a server that stops.

        It ends anyway; without the header a client sends its next request on a closed connection.
        """
        if message["type"] == "http.response.start" and self._lifespan.ending:
            headers = [*message.get("headers", ()), (b"connection", b"close")]
            message = {**message, "headers": headers}
        await send(message)


@dataclass(slots=True)
class Request:
    """A request whose body is read, up to BUFFER, before it is passed to Django."""

    source: Receive
    messages: deque[Message] = field(default_factory=deque)
    answering: asyncio.Event = field(default_factory=asyncio.Event)
    complete: bool = False

    async def is_gone(self) -> bool:
        """Say whether the client disconnected while it queued: its work isn't needed any more."""
        if not self.complete:
            return False
        hang_up = asyncio.ensure_future(self.source())
        await asyncio.sleep(0)  # one step: enough for a message that is there already
        return not hang_up.cancel()

    async def receive(self) -> Message:
        """Give Django the body, and the disconnect only when it answers.

        Django cancels a view whose client has gone, but not its thread: the slot would be given
        back while the thread and its transaction continue. A request that was admitted is finished.
        """
        if self.messages:
            return self.messages.popleft()
        if self.complete:
            await self.answering.wait()
        message = await self.source()
        self.complete = not message.get("more_body", False)
        return message


@dataclass(slots=True)
class Response:
    """Django's answer, buffered until it is complete; that of a held client is not sent."""

    target: Send
    request: Request
    client: Client
    kept: list[Message] = field(default_factory=list)
    size: int = 0
    passing: bool = False

    async def send(self, message: Message) -> None:
        """Keep the message, or pass it on where the answer is long or streamed."""
        if self.client.hold is not None:
            return
        if message["type"] == "http.response.start":
            # Only an answer of known length may be buffered to its end: a stream is passed on.
            names = [name.lower() for name, _ in message.get("headers", ())]
            self.passing = b"content-length" not in names
        self.kept.append(message)
        self.size += len(message.get("body", b""))
        if self.passing or self.size > BUFFER:
            self.passing = True
            self.request.answering.set()
            await self.flush()

    async def flush(self) -> None:
        """Send what was kept."""
        kept, self.kept = self.kept, []
        for message in kept:
            await self.target(message)
