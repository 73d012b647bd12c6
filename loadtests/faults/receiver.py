"""A shop's webhook endpoint: `… -m loadtests.faults.receiver HOST PORT FILE`, a line each."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """Answers 204 when the event is in the file."""

    protocol_version = "HTTP/1.1"
    file: int

    def do_GET(self) -> None:
        """Answer that the process is ready."""
        self._answer(200)

    def do_POST(self) -> None:
        """Append the event as one line: a single write, so that threads do not mix theirs."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        seen = {
            "id": self.headers["webhook-id"],
            "parcel": body["parcel"]["id"],
            "status": body["parcel"]["status"]["id"],
        }
        os.write(self.file, json.dumps(seen).encode() + b"\n")
        self._answer(204)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the file says it."""


def main(host: str, port: str, path: str) -> None:
    """Serve until the process is ended."""
    Handler.file = os.open(Path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    # Else five wait at most, and the seventh connection at once is one that nobody answers.
    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer((host, int(port)), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
