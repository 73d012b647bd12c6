"""Ask an app behind a front by the uwsgi protocol: it speaks no HTTP."""

import socket
import struct

# Answers come from the same machine in milliseconds.
ANSWER_SECONDS = 3.0
# `HTTP/1.1 200 OK` and some headers; the rest isn't read.
ANSWER_BYTES = 4096


def uwsgi_status(host: str, port: int, path: str) -> int:
    """Return the status of GET `path`; OSError when nobody answers, ValueError for no status."""
    with socket.create_connection((host, port), ANSWER_SECONDS) as connection:
        connection.sendall(_packet(path))
        answer = connection.recv(ANSWER_BYTES)
    words = answer.split(b"\r\n", 1)[0].split()
    if len(words) < 2:
        raise ValueError(f"{answer[:100]!r} is no HTTP answer")
    return int(words[1])


def _packet(path: str) -> bytes:
    variables = {
        "REQUEST_METHOD": "GET",
        "REQUEST_URI": path,
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "HTTP_HOST": "127.0.0.1",
        "REMOTE_ADDR": "127.0.0.1",
    }
    body = b"".join(_text(name) + _text(value) for name, value in variables.items())
    # Modifier 0 (a Python request), length, modifier 0: little-endian as all of the protocol.
    return struct.pack("<BHB", 0, len(body), 0) + body


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<H", len(raw)) + raw
