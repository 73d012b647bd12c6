"""A Django site of four views, to show what a server does with a view that waits.

No database, no login, nothing of the application: whatever is slow here is the waiting. For
`python -m loadtests myths`; not to be imitated.
"""

import os
import urllib.request
from collections.abc import Callable

import aiohttp
import django
from celery import Celery
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

CARRIER = os.environ["MYTHS_CARRIER"]
BROKER = os.environ.get("MYTHS_BROKER", "")
# Seconds that nobody here should ever need: clients give up first.
PATIENCE = 120

# Straight to the carrier, whatever proxy the surroundings name.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
queue = Celery("slow_site", broker=BROKER, backend=BROKER)


def buy() -> bytes:
    """Call the carrier and wait."""
    with direct.open(f"{CARRIER}/label", timeout=PATIENCE) as answer:
        label: bytes = answer.read()
    return label


@queue.task
def buy_later() -> str:
    """Do the same in a worker of the queue."""
    return buy().decode()


def sync_view(request: HttpRequest) -> HttpResponse:
    """Wait in the worker: what most applications do."""
    return HttpResponse(buy())


async def async_view(request: HttpRequest) -> HttpResponse:
    """Wait in the loop, where there is one."""
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"{CARRIER}/label") as answer,
    ):
        return HttpResponse(await answer.read())


def celery_view(request: HttpRequest) -> HttpResponse:
    """Hand the waiting to a queue, and wait for the queue."""
    return HttpResponse(buy_later.delay().get(timeout=PATIENCE))


def cheap_view(request: HttpRequest) -> HttpResponse:
    """Answer at once: what a request costs that needs no carrier."""
    return HttpResponse(b"cheap")


Next = Callable[[HttpRequest], HttpResponse]


def sync_middleware(get_response: Next) -> Next:
    """Pass the request on, as any middleware that nobody has made async."""

    def middleware(request: HttpRequest) -> HttpResponse:
        return get_response(request)

    return middleware


urlpatterns = [
    path("sync", sync_view),
    path("async", async_view),
    path("celery", celery_view),
    path("cheap", cheap_view),
]

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    MIDDLEWARE=[f"{__name__}.sync_middleware"] if os.environ.get("MYTHS_SYNC_MIDDLEWARE") else [],
)
django.setup()
wsgi = get_wsgi_application()
asgi = get_asgi_application()
