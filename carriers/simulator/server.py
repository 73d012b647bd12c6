"""Listening sockets that can be closed and opened again, and connections that can be broken."""

import asyncio
import logging
import socket
import struct

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from carriers.simulator.settings import Address

logger = logging.getLogger(__name__)

_EXTENSION = "simulator.connection"
# l_onoff, l_linger: closing throws away what is unsent and sends RST instead of FIN.
_LINGER_ZERO = struct.pack("ii", 1, 0)

# A burst of thousands connects faster than one loop accepts. The kernel cuts it to somaxconn.
_BACKLOG = 8192
# Longer than any client keeps an idle connection, so that the client closes first: a server that
# does it while a request is on the way makes an unknown outcome that no fault asked for.
_KEEP_ALIVE = 75


def connection_of(scope: Scope) -> asyncio.Transport:
    """Return the connection that a request came by."""
    transport: asyncio.Transport = scope["extensions"][_EXTENSION]
    return transport


def reset(scope: Scope) -> None:
    """End a request's connection with RST."""
    transport = connection_of(scope)
    sock = transport.get_extra_info("socket")
    if sock is not None and not transport.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
    transport.abort()


class BreakableProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which hands its connection to the application."""

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self.scope["extensions"] = {_EXTENSION: self.transport}  # type: ignore[dict-item]  # ours, not ASGI's


class Listener:
    """One uvicorn server; `open` and `refuse` may alternate as often as wanted."""

    def __init__(self, app: ASGIApp, address: Address) -> None:
        self._config = uvicorn.Config(
            app,
            http=BreakableProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE,
        )
        self._config.load()
        self._state = ServerState()
        self._address = address
        self._server: asyncio.Server | None = None
        self.port = address.port

    @property
    def url(self) -> str:
        """Return the address with the port that was really taken."""
        host = f"[{self._address.host}]" if ":" in self._address.host else self._address.host
        return f"http://{host}:{self.port}"

    @property
    def is_open(self) -> bool:
        """Return whether new connections are accepted."""
        return self._server is not None

    async def open(self) -> None:
        """Listen; raises OSError where the port is taken."""
        if self._server is not None:
            return
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: BreakableProtocol(self._config, self._state, {}, loop),
            host=self._address.host,
            port=self.port,
            backlog=_BACKLOG,
        )
        # Port 0 means any, once: opened again it must be the same.
        self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Close the listening socket and idle connections; calls in flight go on to their end."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for connection in list(self._state.connections):
            connection.shutdown()

    async def close(self) -> None:
        """Stop listening, break every connection, and end what was being answered."""
        self.refuse()
        for connection in list(self._state.connections):
            connection.transport.abort()
        # One turn of the loop: uvicorn then knows that nobody is left to be answered.
        await asyncio.sleep(0)
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
