"""Serve the app with Cheroot: one process, one pool of threads."""

import os
import signal
import sys

from cheroot import server as cheroot_server
from cheroot.server import HeaderReader, HTTPRequest, KnownLengthRFile
from cheroot.wsgi import Gateway_10, Server

from shipping.wsgi import application

# Of two lengths Cheroot takes the last one, and a proxy before it perhaps the first: what comes
# behind the shorter would be a request of its own. Joined they are no number, and a 400.
cheroot_server.comma_separated_headers.append(b"Content-Length")  # type: ignore[attr-defined] # stubs lack it


class Headers(HeaderReader):
    """Drops names with underscores: WSGI has the same variable for `X_Forwarded_For`."""

    def _allow_header(self, name: bytes) -> bool:
        return b"_" not in name


class Gateway(Gateway_10):
    """Ends the connection after a body in chunks, or whose length is not digits alone (-2, +2).

    Cheroot leaves what it has not read of one, as after a broken chunk, and takes it for the next
    request: a client could hide one of its own there.
    """

    def write(self, chunk: bytes) -> None:
        """Send no body to HEAD: Cheroot would, and its client takes that for the next answer."""
        super().write(b"" if self.req.method == b"HEAD" else chunk)

    def respond(self) -> None:
        given = self.req.inheaders  # in HTTP/1.0, too, where Cheroot ignores chunks
        if b"Transfer-Encoding" in given or not given.get(b"Content-Length", b"0").isdigit():
            self.req.close_connection = True
        if self.req.chunked_read:  # a chunk's size is a line, which Cheroot reads without a limit
            chunks = self.req.rfile
            chunks.rfile = KnownLengthRFile(chunks.rfile, chunks.maxlen)
        super().respond()


def main() -> None:
    """Serve until SIGTERM, then finish what is under way."""
    server = Server(
        (os.environ["BIND_HOST"], int(os.environ["PORT"])),
        application,
        # Each waits for one carrier. Threads are not made on demand: all are there from the start.
        numthreads=int(os.environ["WEB_THREADS"]),
        # The kernel cuts it to somaxconn.
        request_queue_size=4096,
        # Seconds for one read of a request; a client that sends nothing for longer is closed.
        timeout=75,
        # Over the longest wait (WAIT_MAXIMUM, 120 s): those under way are answered first.
        shutdown_timeout=130,
        server_name="127.0.0.1",
    )
    server.gateway = Gateway
    HTTPRequest.header_reader = Headers()
    # 2 MiB is Django's own limit, and in its words; this one only stops what is absurd.
    server.max_request_body_size = 8 * 1024 * 1024
    server.max_request_header_size = 64 * 1024
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.safe_start()


if __name__ == "__main__":
    main()
