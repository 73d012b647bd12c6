"""The life of a process that holds clients: its start, the signal, its drain."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

from offload.protocol import Message, Receive, Send
from offload.waiting import Waiters

# Seconds from the signal to the late answers, at least. A server closes its socket a moment after
# the signal (uvicorn: 0.1 s); a client answered earlier may reconnect to the closing socket and be
# reset. In a longer drain more outcomes come in time, and the process ends later.
DRAIN_SECONDS = 0.5
# Seconds from uvicorn's closed socket to its end of idle connections. At once it would end those,
# too, whose request is still on its way, or not yet read because many came together.
ARRIVING_SECONDS = 0.5


class Lifespan:
    """Starts and stops the waiters with their server; `ending` from the signal on."""

    def __init__(
        self, waiters: Waiters, drain_seconds: float, arriving_seconds: float = ARRIVING_SECONDS
    ) -> None:
        self._waiters = waiters
        self._drain_seconds = drain_seconds
        self._arriving_seconds = arriving_seconds
        self._handlers: dict[int, Any] = {}
        self.ending = False

    async def live(
        self, app: Callable[[Any, Any, Any], Awaitable[None]], scope: Any, receive: Any, send: Send
    ) -> None:
        """Start and stop with the server; the app's own lifespan, where it has one, runs inside."""
        spoken = False

        async def receive_inside() -> Message:
            nonlocal spoken
            spoken = True
            return await self._pass_on(receive)

        try:
            await app(scope, receive_inside, send)
        except Exception:
            if spoken:
                raise
            await self.answer(receive, send)  # Django refuses the lifespan scope

    async def answer(self, receive: Receive, send: Send) -> None:
        """Start and stop with the server, where no app's own lifespan runs inside."""
        for word in ("startup", "shutdown"):
            await self._pass_on(receive)
            await send({"type": f"lifespan.{word}.complete"})

    async def _pass_on(self, receive: Receive) -> Message:
        message = await receive()
        if message["type"] == "lifespan.startup":
            self._waiters.start()
            self.watch_signals()
        elif message["type"] == "lifespan.shutdown":
            self.restore_signals()
            await self._waiters.stop()
        return message

    def watch_signals(self) -> None:
        """Drain at a signal, and then let the server's own handler end it."""
        # Servers shut the lifespan down after their last connection has ended: too late for us.
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()

        def end() -> None:
            self.ending = True
            loop.call_later(self._drain_seconds, self._waiters.drain)

        def end_too(number: int, frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(end)
            earlier = self._handlers[number]
            # uvicorn's handler is its server's method: the sockets can close before the rest ends.
            listeners = getattr(getattr(earlier, "__self__", None), "servers", ())
            for listener in listeners:
                loop.call_soon_threadsafe(listener.close)
            if listeners:
                pause = self._arriving_seconds
                loop.call_soon_threadsafe(loop.call_later, pause, earlier, number, frame)
            elif callable(earlier):
                earlier(number, frame)

        for number in (signal.SIGTERM, signal.SIGINT):
            self._handlers[number] = signal.signal(number, end_too)

    def restore_signals(self) -> None:
        """Give the signals back to the server."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()
