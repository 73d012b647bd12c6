"""A client that can misbehave: HTTP over a plain socket, byte by byte as the test wants it."""

import json
import socket
import struct
from dataclasses import dataclass
from io import BufferedReader

# Seconds. Over the longest answer here by far, on a machine that tests several strategies at once;
# what takes longer is lost.
PATIENCE = 60.0


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name):
        """Return the only header of that name, or an empty string."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) < 2, f"{name} came {len(values)} times: {values}"
        return values[0] if values else ""

    @property
    def json(self):
        return json.loads(self.body)


class Connection:
    """One connection; answers are read in order."""

    def __init__(self, port, seconds=PATIENCE):
        self.socket = socket.create_connection(("127.0.0.1", port), seconds)
        self.reader: BufferedReader = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self.reader.close()
        self.socket.close()

    def abort(self):
        """Hang up with a reset, as a killed client does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def send(self, data):
        self.socket.sendall(data)

    def ask(self, data):
        self.send(data)
        return self.read()

    def read(self):
        """Return the next answer; ConnectionError when there is none, or only a part."""
        line = self._line()
        version, status = line.split(" ", 2)[:2]
        assert version in ("HTTP/1.0", "HTTP/1.1"), line
        headers = []
        while line := self._line():
            name, _, value = line.partition(":")
            headers.append((name, value.strip()))
        return Answer(int(status), headers, self._body({k.lower(): v for k, v in headers}))

    def ended(self):
        """Say whether the server closes now, without another byte."""
        return self.reader.read(1) == b""

    def _line(self):
        line = self.reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError(f"the connection ended after {line!r}")
        return line.decode("latin-1").rstrip("\r\n")

    def _body(self, headers):
        if "content-length" in headers:
            return self._exactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") == "chunked":
            return self._chunks()
        return self.reader.read()

    def _chunks(self):
        whole = b""
        while size := int(self._line().split(";")[0], 16):
            whole += self._exactly(size)
            self._line()
        self._line()
        return whole

    def _exactly(self, size):
        body = self.reader.read(size)
        if len(body) < size:
            raise ConnectionError(f"{len(body)} of {size} bytes came")
        return body


def request(method, path, *, port, headers=(), body=None, version="HTTP/1.1"):
    """Return a request's bytes; `headers` are pairs, sent as they are and in their order."""
    lines = [f"{method} {path} {version}", f"Host: 127.0.0.1:{port}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")
