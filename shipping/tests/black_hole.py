"""A TCP proxy that can stop forwarding without closing anything: the network's black hole."""

import contextlib
import socket
import threading
from collections.abc import Callable
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
        self._threads: list[threading.Thread] = []
        self._ended = False
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
        self._begin(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = True
        for flows in (self._flows, *self._forgotten):
            flows.set()
        for each in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:  # with those that one of them begins meanwhile
            thread.join()

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._begin(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        self._sockets.append(client)
        flows = self._flows
        flows.wait()
        if self._ended:  # the next test may refuse to connect
            return
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        self._sockets.append(server)
        for pair in ((client, server), (server, client)):
            self._begin(self._pump, *pair, flows)

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket, flows: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                flows.wait()
                target.sendall(data)
        with contextlib.suppress(OSError):
            flows.wait()
            target.shutdown(socket.SHUT_WR)
