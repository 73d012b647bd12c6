"""A TCP proxy that can stop forwarding without closing anything: the network's black hole."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards to a port of loopback: `with Proxy(5432) as proxy:`, then `proxy.port`.

    Between `swallow` and `forward` it still accepts and acknowledges, as a proxy does whose server
    is away: what TCP can notice by itself does not happen.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._flows = threading.Event()
        self._flows.set()
        self._forgotten: list[threading.Event] = []
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def swallow(self) -> None:
        """Stop forwarding."""
        self._flows.clear()

    def forward(self) -> None:
        """Go on, with what came meanwhile."""
        self._flows.set()

    def forget(self) -> None:
        """Go on with new connections; the old ones stay silent for ever, as behind a new NAT."""
        self._forgotten.append(self._flows)
        self._flows = threading.Event()
        self._flows.set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for flows in (self._flows, *self._forgotten):
            flows.set()
        for each in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._sockets.append(client)
        flows = self._flows
        flows.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        self._sockets.append(server)
        for pair in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(*pair, flows), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket, flows: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                flows.wait()
                target.sendall(data)
        with contextlib.suppress(OSError):
            flows.wait()
            target.shutdown(socket.SHUT_WR)
