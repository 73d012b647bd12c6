"""The fronts: how the app tells the server in front of it to hold a client."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.utils.module_loading import import_string

from offload import conf, store
from offload.keys import HOLD_PATH, LATE_KEY, REQUEST_KEY, TICKET_HEADER
from offload.protocol import Answer, encode_answer, is_request_id
from offload.tickets import LATE_GRACE, read_ticket

HandOver = Callable[[HttpResponse, str], HttpResponse]


@dataclass(frozen=True)
class Front:
    """The part that holds clients; OFFLOAD["BACKEND"] is a name below, or the dotted path of your
    own.

    `remote`: another process holds the client, and finds the late answer in the store; else
    HoldMiddleware does. `hand_over(late, ticket)` makes the app's answer to that process; without
    it, that is the late answer with the ticket in a header. `holds` is False if the worker itself
    waits.
    """

    hand_over: HandOver | None = None
    remote: bool = False
    holds: bool = True


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
    answer = bare(418, TICKET_HEADER, ticket)
    # Django would warn of each held client, as of any 4xx.
    answer._has_been_logged = True  # type: ignore[attr-defined] # Django's mark
    return answer


def _uwsgi(late: HttpResponse, ticket: str) -> HttpResponse:
    return bare(late.status_code, TICKET_HEADER, ticket)


class Fronts(dict[str, Front]):
    """The fronts by their names; another name is the dotted path of a project's own."""

    def __missing__(self, name: str) -> Front:
        try:
            front = import_string(name)
        except ImportError:
            front = None
        if not isinstance(front, Front):
            raise ImproperlyConfigured(f"OFFLOAD['BACKEND']: there is no front {name!r}")
        return front


FRONTS = Fronts(
    {
        # nginx follows X-Accel-Redirect to the hub.
        "accel": Front(_accel, remote=True),
        # nginx intercepts status 418, and its script sends the request to the hub:
        # `error_page 418 = @njs`.
        "njs": Front(_njs, remote=True),
        # The same, but the script polls the app: a published method, for comparison.
        "poll": Front(_njs, remote=True),
        # uWSGI reads the ticket's header, and its offload thread connects to the hub.
        "uwsgi": Front(_uwsgi, remote=True),
        # HoldMiddleware holds in this process.
        "asgi": Front(),
        # No front holds: the app's own worker or coroutine waits.
        "inline": Front(holds=False),
        "async": Front(holds=False),
    }
)


def store_late(ticket: str, late: Answer, *, request_id: str = "") -> bool:
    """Store the late answer where the hub finds it; False if the store is in trouble.

    Then the hub asks the app for it, when it comes to that. With the front's name for the request
    the ticket is found again when the hub is lost, and for longer than that lives: a front gives a
    silent hub up late.
    """
    now = time.time()
    read = read_ticket(conf.current().secret, ticket, now=now)
    life = int(read.deadline - now + LATE_GRACE) + 1
    values = [(LATE_KEY + read.nonce, encode_answer(late, packed=True), life)]
    if is_request_id(request_id):
        values.append((REQUEST_KEY + request_id, ticket.encode(), life + conf.current().answer_ttl))
    return store.write("a late answer is not stored", values)
