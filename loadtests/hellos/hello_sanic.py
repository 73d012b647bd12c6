"""Sanic's hello: `python hello_sanic.py PORT WORKERS`, in an environment that has Sanic."""

import sys

# Not in our environment: it wants an older multidict than aiohttp (requirements-yardstick.in).
from sanic import Request, Sanic  # type: ignore[import-not-found]
from sanic.response import HTTPResponse, text  # type: ignore[import-not-found]

app = Sanic("hello")


@app.get("/")
async def hello(request: Request) -> HTTPResponse:
    """Answer at once."""
    return text("hello")


if __name__ == "__main__":
    port, workers = map(int, sys.argv[1:])
    app.run("127.0.0.1", port, workers=workers, access_log=False, motd=False)
