"""A server that says hello: the yardstick."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def hello(request: Request) -> PlainTextResponse:
    """Answer at once."""
    return PlainTextResponse("hello")


app = Starlette(routes=[Route("/", hello)])
