"""Serve the live page by uvicorn: as a process, or inside another program."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from deploy.live.app import Live


def configuration(live: Live, host: str, port: int) -> uvicorn.Config:
    """Return how uvicorn serves the page."""
    return uvicorn.Config(
        live.app(),
        host=host,
        port=port,
        access_log=False,
        log_level="warning",
        # A stream of events has no end of its own: it is cut after a second.
        timeout_graceful_shutdown=1,
        # Nobody stands in front who could say truly who the client is.
        proxy_headers=False,
        server_header=False,
    )


class _Inside(uvicorn.Server):
    """Leaves signals to the program around it, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class Embedded:
    """The page inside a running event loop: `async with Embedded(live, port)`; loopback only."""

    def __init__(self, live: Live, port: int) -> None:
        self._server = _Inside(configuration(live, "127.0.0.1", port))
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Embedded":
        self._task = asyncio.create_task(self._server.serve())
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait([listening, self._task], return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await self._task
