"""Starlette's hello, for machines without Sanic."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def hello(request: Request) -> PlainTextResponse:
    """Answer at once."""
    return PlainTextResponse("hello")


app = Starlette(routes=[Route("/", hello)])
