"""Holding in process: an ASGI middleware around Django, with nothing else to install.

    application = HoldMiddleware(get_asgi_application(), redis_url=…, secret=…, resolve=…)

A limited number of requests is in Django's threads; clients that wait for a slot, for a release or
because of a slow connection wait in the event loop and cost a few kilobytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

from offload.answer import Answer, is_internal, pack
from offload.arrival import KEY
from offload.counting import Counts, here
from offload.parking import MAX_HOLDS, MAX_HOLDS_PER_ACCOUNT, Parking, Send, send_answer
from offload.protocol import TICKET_HEADER, Ticket, TicketRefused, read_ticket
from offload.waiting import Message, Receive, Resolve, Waiters

# Any: frameworks write these types in their own ways.
App = Callable[[Any, Any, Any], Awaitable[None]]

# Requests in Django at once, each a thread and a database connection. Short requests keep two
# cores busy with far fewer; 32 leaves room for some slow queries, and PostgreSQL's 100
# connections for three such processes.
MAX_CONCURRENCY = 32
# Bytes of a request or response kept while its client is slow. Django's own limit for bodies in
# memory: what is larger goes through a slot of its own kind, in pieces.
BUFFER = 2_621_440

# Seconds from the signal to the late answers, at least. A server closes its socket a moment after
# the signal (uvicorn: 0.1 s); a client answered earlier may reconnect to the closing socket and be
# reset. In a longer drain more outcomes come in time, and the process ends later.
DRAIN_SECONDS = 0.5
# Seconds from uvicorn's closed socket to its end of idle connections. At once it would end those,
# too, whose request is still on its way, or not yet read because many came together.
ARRIVING_SECONDS = 0.5

_TICKET = TICKET_HEADER.lower().encode()


class HoldMiddleware:
    """Admit requests, recognise held answers, and wait for them.

    `resolve` asks the app when Redis is in doubt. `max_concurrency`, `max_holds` and
    `max_holds_per_account` are per process. A process that must stop keeps its clients for
    `drain_seconds` seconds; give its server more time than that to stop.
    """

    def __init__(
        self,
        app: App,
        *,
        redis_url: str,
        secret: str,
        resolve: Resolve | None = None,
        max_concurrency: int = MAX_CONCURRENCY,
        max_holds: int = MAX_HOLDS,
        max_holds_per_account: int = MAX_HOLDS_PER_ACCOUNT,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self._app = app
        self._drain_seconds = drain_seconds
        self._secret = secret
        self.counts: Counts = here()
        self._waiters = Waiters(redis_url, resolve=resolve, counts=self.counts)
        self._parking = Parking(
            self._waiters,
            self.counts,
            max_holds=max_holds,
            max_holds_per_account=max_holds_per_account,
        )
        self._slots = asyncio.Semaphore(max_concurrency)
        # A body over BUFFER is read inside its slot, at its client's speed: such clients have
        # separate slots.
        self._slots_for_large = asyncio.Semaphore(max(1, max_concurrency // 4))
        self._handlers: dict[int, Any] = {}
        self._ending = False

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            await self._app(without_internal_headers(scope), receive, send)

    # One request -----------------------------------------------------------------------------

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        request = Request(receive)
        if not await request.buffer():
            return
        if scope.get("http_version", "1.1") in {"1.0", "1.1"}:
            send = self._closing(send)
        response = Response(send, request)
        # Before the queue for a slot: its client waits there, too.
        scope = {**without_internal_headers(scope), KEY: time.monotonic()}
        slots = self._slots if request.complete else self._slots_for_large
        queued = slots.locked()
        async with slots:
            if queued and await request.is_gone():
                return
            await self._app(scope, request.receive, response.send)
        held = response.held(self._secret)
        if held is None:
            await response.flush()
            return
        ticket, packed = held
        del request, response  # the body and the late answer would stay in memory
        self._waiters.start()
        answer = await self._parking.park(ticket, packed, receive)
        if answer is not None:
            await send_answer(send, answer)

    def _closing(self, send: Send) -> Send:
        """Close the connection with each answer of a server that stops.

        It ends anyway; without the header a client sends its next request on a closed connection.
        """

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and self._ending:
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        return closing

    # Life ------------------------------------------------------------------------------------

    async def _live(self, scope: Message, receive: Receive, send: Send) -> None:
        """Start and stop with the server; the app's own lifespan, where it has one, runs inside."""
        spoken = False

        async def receive_inside() -> Message:
            nonlocal spoken
            spoken = True
            return await self._pass_on(await receive())

        try:
            await self._app(scope, receive_inside, send)
        except Exception:
            if spoken:
                raise
            # Django refuses the lifespan scope: we answer it.
            for word in ("startup", "shutdown"):
                await self._pass_on(await receive())
                await send({"type": f"lifespan.{word}.complete"})

    async def _pass_on(self, message: Message) -> Message:
        if message["type"] == "lifespan.startup":
            self._waiters.start()
            self._watch_signals()
        elif message["type"] == "lifespan.shutdown":
            self._restore_signals()
            await self._waiters.stop()
        return message

    def _watch_signals(self) -> None:
        # Servers shut the lifespan down after their last connection has ended: too late for us.
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()

        def end() -> None:
            self._ending = True
            loop.call_later(self._drain_seconds, self._waiters.drain)

        def end_too(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(end)
            earlier = self._handlers[number]
            # uvicorn's handler is its server's method: the sockets can close before the rest ends.
            listeners = getattr(getattr(earlier, "__self__", None), "servers", ())
            for listener in listeners:
                loop.call_soon_threadsafe(listener.close)
            if listeners:
                loop.call_soon_threadsafe(loop.call_later, ARRIVING_SECONDS, earlier, number, frame)
            elif callable(earlier):
                earlier(number, frame)

        for number in (signal.SIGTERM, signal.SIGINT):
            self._handlers[number] = signal.signal(number, end_too)

    def _restore_signals(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()


class Request:
    """A request whose body is read before it is passed to Django."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: deque[Message] = deque()
        self.answering = asyncio.Event()
        self.complete = False

    async def buffer(self) -> bool:
        """Read the body, up to BUFFER; False if the client has gone meanwhile."""
        size = 0
        while not self.complete and size <= BUFFER:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return False
            self._messages.append(message)
            size += len(message.get("body", b""))
            self.complete = not message.get("more_body", False)
        return True

    async def is_gone(self) -> bool:
        """Say whether the client disconnected while it queued: its work isn't needed any more."""
        if not self.complete:
            return False
        hang_up = asyncio.ensure_future(self._receive())
        await asyncio.sleep(0)  # one step: enough for a message that is there already
        return not hang_up.cancel()

    async def receive(self) -> Message:
        """Give Django the body, and the disconnect only when it answers.

        Django cancels a view whose client has gone, but not its thread: the slot would be given
        back while the thread and its transaction continue. A request that was admitted is finished.
        """
        if self._messages:
            return self._messages.popleft()
        if self.complete:
            await self.answering.wait()
        message = await self._receive()
        self.complete = not message.get("more_body", False)
        return message


class Response:
    """Django's answer, buffered until it is known to be held or complete."""

    def __init__(self, send: Send, request: Request) -> None:
        self._send = send
        self._request = request
        self._kept: list[Message] = []
        self._size = 0
        self._passing = False
        self._ticket = ""

    async def send(self, message: Message) -> None:
        """Keep the message, or pass it on where the answer is long or streamed."""
        if message["type"] == "http.response.start":
            message = self._start(message)
        self._kept.append(message)
        self._size += len(message.get("body", b""))
        if self._passing or (self._size > BUFFER and not self._ticket):
            self._passing = True
            self._request.answering.set()
            await self.flush()

    async def flush(self) -> None:
        """Send what was kept."""
        kept, self._kept = self._kept, []
        for message in kept:
            await self._send(message)

    def held(self, secret: str) -> tuple[Ticket, bytes] | None:
        """Return ticket and packed late answer, if Django has answered `hold`."""
        if not self._ticket or not self._kept:
            return None
        with contextlib.suppress(TicketRefused):
            ticket = read_ticket(secret, self._ticket, now=time.time())
            start, *parts = self._kept
            headers = tuple((k.decode("latin-1"), v.decode("latin-1")) for k, v in start["headers"])
            body = b"".join(part.get("body", b"") for part in parts)
            return ticket, pack(Answer(start["status"], headers, body))
        return None

    def _start(self, message: Message) -> Message:
        headers = list(message.get("headers", ()))
        tickets = [value for name, value in headers if name.lower() == _TICKET]
        self._ticket = tickets[0].decode("latin-1") if tickets else ""
        # Only an answer of known length may be buffered to its end: a stream is passed on.
        known = any(name.lower() == b"content-length" for name, _ in headers)
        self._passing = not known and not self._ticket
        public = [
            (name, value) for name, value in headers if not is_internal(name.decode("latin-1"))
        ]
        return {**message, "headers": public}


def without_internal_headers(scope: Message) -> Message:
    """Return the scope as if the client had not sent any of our internal headers."""
    headers = [(k, v) for k, v in scope["headers"] if not is_internal(k.decode("latin-1"))]
    return {**scope, "headers": headers}
