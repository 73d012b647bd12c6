"""`hold`, and the middleware that has the front hold the client after all other middleware."""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast
from uuid import UUID

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from offload import conf, store, views
from offload.fronts import FRONTS, store_late
from offload.inline import wait_here, wait_in_this_loop
from offload.keys import CLIENT, INTERNAL_PATH, REQUEST_HEADER, TICKET_HEADER
from offload.protocol import Client, Hold, check_hold_id, encode_answer
from offload.tickets import make_ticket

logger = logging.getLogger("offload")


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
        owner = "" if account is None else str(account)  # an anonymous user's pk is None
        late.offload_hold = Hold(hold_id, owner, time.time() + seconds)  # type: ignore[attr-defined] # our mark, for OffloadMiddleware
    return late


def holds_clients() -> bool:
    """Say whether a front holds clients here; if not, the worker waits for what is held."""
    return FRONTS[conf.current().backend].holds


def arrived_at(request: Any) -> float:
    """Return the `time.monotonic()` at which the whole request was there.

    Its client waits from then on, not from the start of the view. Takes Django's request or one
    that wraps it. Without OffloadMiddleware it is now.
    """
    client = getattr(request, "offload_client", None)
    return time.monotonic() if client is None else float(client.arrived_at)


class OffloadMiddleware:
    """Outermost in MIDDLEWARE: the late answer is kept with the headers of all other middleware."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        # HoldMiddleware's, where there is one.
        noted = (getattr(request, "scope", None) or request.META).get(CLIENT)
        request.offload_client = noted or Client(time.monotonic())  # type: ignore[attr-defined] # our mark
        if FRONTS[conf.current().backend].remote:
            # These two have none. The first is the test client's mark; a view may set it, too.
            has_front = not (
                hasattr(request, "_dont_enforce_csrf_checks")
                or request.META.get("SERVER_SOFTWARE", "").startswith("WSGIServer/")  # runserver
            )
        else:
            has_front = noted is not None  # HoldMiddleware handles this request
        if self._is_async:
            return self._answer_async(request, has_front=has_front)
        # Before all other middleware: the hub's questions know no host, no scheme and no user.
        if request.path_info.startswith(INTERNAL_PATH):
            return views.internal(request)
        response: HttpResponseBase = self._get_response(request)
        if not hasattr(response, "offload_hold"):
            return response
        answer = hand_over(request, response, has_front=has_front)
        return wait_here(response) if answer is None else answer

    async def _answer_async(self, request: HttpRequest, *, has_front: bool) -> HttpResponseBase:
        if request.path_info.startswith(INTERNAL_PATH):
            return await sync_to_async(views.internal)(request)
        response: HttpResponseBase = await self._get_response(request)
        if not hasattr(response, "offload_hold"):
            return response
        if FRONTS[conf.current().backend].remote:  # the late answer is stored
            answer = await sync_to_async(hand_over)(request, response, has_front=has_front)
        else:
            answer = hand_over(request, response, has_front=has_front)
        return await wait_in_this_loop(response) if answer is None else answer


def hand_over(request: Any, late: Any, *, has_front: bool) -> HttpResponse | None:
    """Have the front hold the client, and return the app's answer to it; None if none does."""
    settings = conf.current()
    front = FRONTS[settings.backend]
    if not (has_front and front.holds) or store.eager is not None:
        return None
    try:
        answer = store.to_answer(late)
    except ValueError:
        logger.exception("a client is not held: its late answer can't be kept")
        return cast(HttpResponse, late)
    hold: Hold = late.offload_hold
    if not front.remote:
        client: Client = request.offload_client
        client.hold, client.late = hold, encode_answer(answer, packed=True)
        return cast(HttpResponse, late)
    ticket = make_ticket(
        settings.secret, hold.hold_id, account=hold.account, deadline=hold.deadline
    )
    store_late(ticket, answer, request_id=request.headers.get(REQUEST_HEADER, ""))
    if front.hand_over is not None:
        return front.hand_over(late, ticket)
    late[TICKET_HEADER] = ticket
    return cast(HttpResponse, late)
