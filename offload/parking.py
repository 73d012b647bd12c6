"""Holding one client: limits, waiting, and its final answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from offload.answer import Answer, merge, public_headers, unpack
from offload.counting import Counts
from offload.protocol import Ticket
from offload.waiting import Ending, Message, Receive, Waiters

Send = Callable[[Message], Awaitable[None]]

# Holds in one process: 10,000 were measured, at a descriptor and some 16 KB each.
MAX_HOLDS = 10_000
# A tenth, so that one account with a slow carrier leaves room for the others.
MAX_HOLDS_PER_ACCOUNT = 1_000

_BODILESS = frozenset({204, 304})


class Parking:
    """The held clients of one process; its limits are per process too."""

    def __init__(
        self,
        waiters: Waiters,
        counts: Counts,
        *,
        max_holds: int = MAX_HOLDS,
        max_holds_per_account: int = MAX_HOLDS_PER_ACCOUNT,
    ) -> None:
        self._waiters = waiters
        self._counts = counts
        self._max_holds = max_holds
        self._max_per_account = max_holds_per_account
        self._by_account: Counter[str] = Counter()

    async def park(self, ticket: Ticket, packed: bytes | None, receive: Receive) -> Answer | None:
        """Hold the client and return its answer, or None when it has disconnected.

        `packed` is the late answer (answer.pack), None where it could not be had.
        """
        account = ticket.account
        full = account and self._by_account[account] >= self._max_per_account
        if full or self._counts.mine("holds") >= self._max_holds:
            self._counts.add("over_limit_total")
            return await self._late(ticket, packed)
        ending = await self._hold(ticket, receive)
        if ending is Ending.GONE:
            self._counts.add("gone_total")
            return None
        if isinstance(ending, Answer):
            self._counts.add("answered_total")
            return merge(ending, unpack(packed) if packed else None)
        self._counts.add("late_total")
        return await self._late(ticket, packed)

    async def _hold(self, ticket: Ticket, receive: Receive) -> Answer | Ending:
        self._counts.add("holds")
        self._counts.add("held_total")
        self._by_account[ticket.account] += 1
        try:
            return await self._waiters.wait(ticket.hold_id, ticket.deadline, receive)
        finally:
            self._counts.add("holds", -1)
            self._by_account[ticket.account] -= 1
            if not self._by_account[ticket.account]:
                del self._by_account[ticket.account]

    async def _late(self, ticket: Ticket, packed: bytes | None) -> Answer:
        late = await self._waiters.late(ticket, packed)
        return late._replace(headers=public_headers(late.headers))


async def send_answer(send: Send, answer: Answer) -> None:
    """Send the whole answer over ASGI."""
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]
    if answer.status not in _BODILESS:
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
