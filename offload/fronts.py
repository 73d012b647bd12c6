"""`hold`, and the fronts: how the app tells the server in front of it to hold a client."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.utils.module_loading import import_string

from offload import conf
from offload.protocol import HOLD_PATH, TICKET_HEADER, check_hold_id

HandOver = Callable[[HttpResponse, str], HttpResponse]


@dataclass(frozen=True)
class Hold:
    """The mark that `hold` leaves on a response; `deadline` in seconds since the epoch."""

    hold_id: str
    account: str
    deadline: float


def hold(
    hold_id: UUID | str, *, late: HttpResponse, wait: float | None = None, account: object = ""
) -> HttpResponse:
    """Have this client wait until `release(hold_id, …)`; return this from the view.

    `late` is what the client gets when `wait` seconds (OFFLOAD["DEADLINE"] at most, and by
    default) have passed: usually a 202 with Location, Retry-After and a body. `account` is any key
    of the account that OFFLOAD["MAX_HOLDS_PER_ACCOUNT"] counts. Where nothing holds clients
    (`inline`, runserver, the test client) the worker waits, after the view and its transaction.
    Raises ValueError for a hold id that is not a UUID.
    """
    settings = conf.current()
    if not isinstance(late, HttpResponse):
        raise TypeError(f"the late answer is a response with an end, not {late!r}")
    hold_id = check_hold_id(hold_id)
    if late.status_code == 202:
        late.status_code = settings.deadline_status
    seconds = settings.deadline if wait is None else min(wait, settings.deadline)
    if seconds > 0:
        late.offload_hold = Hold(hold_id, str(account), time.time() + seconds)  # type: ignore[attr-defined] # our mark, for OffloadMiddleware
    return late


def holds_clients() -> bool:
    """Say whether a front holds clients here; if not, the worker waits for what is held."""
    return current().holds


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
