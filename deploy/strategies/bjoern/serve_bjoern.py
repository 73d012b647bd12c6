"""Serve the app with bjoern: some processes on one socket, one request at a time in each."""

import os
import signal
import sys

import bjoern

from shipping.wsgi import application


def main() -> None:
    """Keep `WEB_WORKERS` processes serving until SIGTERM."""
    bjoern.listen(
        application, os.environ["BIND_HOST"], int(os.environ["PORT"]), listen_backlog=4096
    )
    children = {_start() for _ in range(int(os.environ["WEB_WORKERS"]))}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            child, _ = os.wait()
            children.discard(child)
            children.add(_start())
    finally:
        for child in children:
            os.kill(child, signal.SIGTERM)
        for _ in children:
            os.wait()


def _start() -> int:
    child = os.fork()
    if child:
        return child
    # bjoern ends by itself at SIGINT only, after the request under way.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        bjoern.run()
    except KeyboardInterrupt:
        os._exit(0)
    os._exit(1)


if __name__ == "__main__":
    main()
