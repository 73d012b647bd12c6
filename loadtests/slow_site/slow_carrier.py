"""A carrier that answers each call after so many seconds: `MYTHS_CARRIER_SECONDS`, default 2."""

import asyncio
import os

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

SECONDS = float(os.environ.get("MYTHS_CARRIER_SECONDS", "2"))


async def label(request: Request) -> PlainTextResponse:
    """Answer, but not soon."""
    await asyncio.sleep(SECONDS)
    return PlainTextResponse("label")


async def health(request: Request) -> PlainTextResponse:
    """Answer at once."""
    return PlainTextResponse("ok")


app = Starlette(routes=[Route("/label", label), Route("/", health)])
