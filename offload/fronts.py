"""Fronts: how the app tells the server in front of it to hold a client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.utils.module_loading import import_string

from offload import conf
from offload.protocol import HOLD_PATH, TICKET_HEADER

HandOver = Callable[[HttpResponse, str], HttpResponse]


@dataclass(frozen=True)
class Front:
    """The part that holds clients; OFFLOAD["BACKEND"] is a name below, or the dotted path of your
    own.

    `hand_over(late, ticket)` makes the app's answer to the front. `remote`: another process gives
    the answer, and finds the late one in the store. `holds` is False if the worker itself waits.
    """

    hand_over: HandOver
    remote: bool = False
    holds: bool = True


def current() -> Front:
    """Return the project's front."""
    return load(conf.current().backend)


def load(name: str) -> Front:
    """Return the named front, or raise ImproperlyConfigured."""
    if name in FRONTS:
        return FRONTS[name]
    try:
        front = import_string(name)
    except ImportError:
        front = None
    if not isinstance(front, Front):
        raise ImproperlyConfigured(f"OFFLOAD['BACKEND']: there is no front {name!r}")
    return front


def bare(status: int, header: str, value: str) -> HttpResponse:
    """Return an answer with that header and nothing else.

    Everything the client gets comes from the hub; a Set-Cookie here would reach it twice.
    """
    response = HttpResponse(status=status)
    del response["Content-Type"]
    response[header] = value
    return response


def _accel(late: HttpResponse, ticket: str) -> HttpResponse:
    return bare(200, "X-Accel-Redirect", HOLD_PATH + ticket)


def _njs(late: HttpResponse, ticket: str) -> HttpResponse:
    # 418: no real view answers it, so nginx intercepts nothing else.
    return bare(418, TICKET_HEADER, ticket)


def _uwsgi(late: HttpResponse, ticket: str) -> HttpResponse:
    return bare(late.status_code, TICKET_HEADER, ticket)


def _asgi(late: HttpResponse, ticket: str) -> HttpResponse:
    late[TICKET_HEADER] = ticket
    return late


FRONTS = {
    # nginx follows X-Accel-Redirect to the hub.
    "accel": Front(_accel, remote=True),
    # nginx intercepts status 418, and its script sends the request to the hub: `error_page 418 =
    # @njs`.
    "njs": Front(_njs, remote=True),
    # The same, but the script polls the app: a published method, for comparison.
    "poll": Front(_njs, remote=True),
    # uWSGI reads the ticket's header, and its offload thread connects to the hub.
    "uwsgi": Front(_uwsgi, remote=True),
    # HoldMiddleware holds in this process; the late answer is the body that it sees.
    "asgi": Front(_asgi),
    # No front holds: the app's own worker or coroutine waits.
    "inline": Front(_asgi, holds=False),
    "async": Front(_asgi, holds=False),
}
