"""The hub: holds the clients that a front sends it, each named by the ticket in its path.

    OFFLOAD_SECRET=… python -m offload.hub --bind 127.0.0.1:8100 --workers 2 \\
        --store redis://127.0.0.1:6379/0 --resolve-url http://127.0.0.1:8001/_offload/answers

Plain ASGI without Django. It listens where clients can't reach.
"""

import logging
import os
import time
from collections.abc import Iterable

from offload.counting import REFUSED
from offload.keys import LATE_KEY, USED_KEY
from offload.lifespan import Lifespan
from offload.protocol import Answer, Hold, Message, Receive, Send, send_answer
from offload.redis_clients import StoreTrouble
from offload.tickets import LATE_GRACE, TICKET_GRACE, TicketRefused, read_ticket
from offload.waiting import Waiters

# Seconds between two sweeps of the nonces that only this process remembers.
FORGET_INTERVAL = 30.0
# Seconds between two lines about refused tickets: with a wrong secret every one is.
SAY_INTERVAL = 10.0

logger = logging.getLogger("offload")

_TEXT = (("Content-Type", "text/plain; charset=utf-8"),)
# Without details: a refused caller doesn't learn the reason.
_NOT_FOUND = Answer(404, _TEXT, b"")
# Another hub had this client and was lost: the front then asks the app.
_USED = Answer(410, _TEXT, b"")


class TicketUsed(TicketRefused):
    """The ticket was valid, but is already used."""


class Hub:
    """The ASGI application; one per process."""

    def __init__(
        self,
        waiters: Waiters,
        *,
        secret: str,
        secret_fallbacks: Iterable[str] = (),
        drain_seconds: float = 0.0,
    ) -> None:
        self.waiters = waiters
        self._secret = secret
        self._secret_fallbacks = tuple(secret_fallbacks)
        # At once idle connections end, too: their front has another hub, or the app, for the next.
        self._lifespan = Lifespan(waiters, drain_seconds, arriving_seconds=0.0)
        self._used: dict[str, float] = {}
        self._forget_at = 0.0
        self._silent_until = 0.0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan.answer(receive, send)
        elif scope["type"] == "http":
            answer = await self._answer(scope, receive)
            if answer is not None:
                await send_answer(send, answer)

    async def _answer(self, scope: Message, receive: Receive) -> Answer | None:
        place, _, name = scope["path"].rpartition("/")
        if place.endswith("/hold"):  # by any method: uWSGI passes on the client's own
            return await self._hold(name, receive)
        if name == "healthz" and not place:
            if self.waiters.draining:
                return Answer(503, _TEXT, b"draining\n")
            return Answer(200, _TEXT, f"ok, process {os.getpid()}\n".encode())
        if name == "metrics" and not place:
            return Answer(200, _TEXT, self.waiters.counts.as_prometheus().encode())
        return _NOT_FOUND

    async def _hold(self, text: str, receive: Receive) -> Answer | None:
        try:
            ticket = read_ticket(
                self._secret, text, now=time.time(), fallbacks=self._secret_fallbacks
            )
            packed = await self._claim(ticket)
        except TicketUsed:
            self.waiters.counts.own[REFUSED] += 1
            return _USED
        except TicketRefused as refusal:
            self.waiters.counts.own[REFUSED] += 1
            if time.monotonic() >= self._silent_until:
                self._silent_until = time.monotonic() + SAY_INTERVAL
                logger.warning("ticket refused: %s. Is OFFLOAD_SECRET the app's?", refusal)
            return _NOT_FOUND
        return await self.waiters.park(ticket, packed, receive)

    async def _claim(self, ticket: Hold) -> bytes | None:
        """Mark the ticket as used and return its packed late answer, None if Redis has none.

        Without Redis a ticket is marked in this process only: another one would accept it again,
        and give the same answer to the same bearer.
        """
        self._use_here(ticket)
        life = max(1, int(ticket.deadline - time.time() + TICKET_GRACE) + 1)
        pipe = self.waiters.pipe
        first = pipe.ask("SET", USED_KEY + ticket.nonce, 1, "NX", "EX", life)
        late = pipe.ask("GET", LATE_KEY + ticket.nonce)
        try:
            if not await first:
                raise TicketUsed
            packed: bytes | None = await late
        except StoreTrouble:
            return None
        # The app stores it before it sends the ticket.
        if packed is None and time.time() < ticket.deadline + LATE_GRACE:
            self.waiters.doubts.begin("a late answer is not in it: is it the app's store?")
        return packed

    def _use_here(self, ticket: Hold) -> None:
        now = time.time()
        if now >= self._forget_at:
            self._used = {nonce: until for nonce, until in self._used.items() if until > now}
            self._forget_at = now + FORGET_INTERVAL
        if ticket.nonce in self._used:
            raise TicketUsed
        self._used[ticket.nonce] = ticket.deadline + TICKET_GRACE
