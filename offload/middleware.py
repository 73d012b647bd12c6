"""Translates a held answer for the front, after all other middleware has processed it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from offload import conf, fronts, store, views
from offload.async_wait import wait_in_this_loop
from offload.fronts import Hold
from offload.protocol import ARRIVED_AT, INTERNAL_PATH, REQUEST_HEADER, make_ticket
from offload.worker_wait import wait_here

logger = logging.getLogger("offload")


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
        # HoldMiddleware's, where there is one, else now.
        noted = _noted_outside(request)
        request.offload_arrived_at = noted or time.monotonic()  # type: ignore[attr-defined] # our mark, for arrived_at
        if self._is_async:
            return self._answer_async(request)
        # Before all other middleware: the hub's questions know no host, no scheme and no user.
        if request.path_info.startswith(INTERNAL_PATH):
            return views.internal(request)
        response: HttpResponseBase = self._get_response(request)
        if not hasattr(response, "offload_hold"):
            return response
        if is_held(request):
            return hand_over(request, response)
        return wait_here(response)

    async def _answer_async(self, request: HttpRequest) -> HttpResponseBase:
        if request.path_info.startswith(INTERNAL_PATH):
            return await sync_to_async(views.internal)(request)
        response: HttpResponseBase = await self._get_response(request)
        if not hasattr(response, "offload_hold"):
            return response
        if not is_held(request):
            return await wait_in_this_loop(response)
        if fronts.current().remote:
            return await sync_to_async(hand_over, thread_sensitive=False)(request, response)
        return hand_over(request, response)


def arrived_at(request: Any) -> float:
    """Return the `time.monotonic()` at which the whole request was there.

    Its client waits from then on, not from the start of the view. Takes Django's request or one
    that wraps it. Without OffloadMiddleware it is now.
    """
    return float(getattr(request, "offload_arrived_at", None) or time.monotonic())


def _noted_outside(request: Any) -> Any:
    """Return the arrival that HoldMiddleware noted; None where none handles this request."""
    return (getattr(request, "scope", None) or request.META).get(ARRIVED_AT)


def is_held(request: HttpRequest) -> bool:
    """Say whether this request came through the front in the settings."""
    front = fronts.current()
    if store.eager is not None:
        return False
    if not front.remote:
        return front.holds and _noted_outside(request) is not None
    # Nothing tells a front that is there; these two never have one. The first is Django's mark on
    # each request of its test client, and DRF's.
    return not (
        hasattr(request, "_dont_enforce_csrf_checks")
        or request.META.get("SERVER_SOFTWARE", "").startswith("WSGIServer/")  # runserver
    )


def hand_over(request: HttpRequest, late: Any) -> HttpResponse:
    """Return the answer that tells the front to hold the client."""
    hold: Hold = late.offload_hold
    ticket = make_ticket(
        conf.current().secret, hold.hold_id, account=hold.account, deadline=hold.deadline
    )
    front = fronts.current()
    if front.remote:
        try:
            answer = store.to_answer(late)
        except ValueError:
            logger.exception("a client is not held: its late answer can't be kept")
            return cast(HttpResponse, late)
        # Without Redis the hub asks the app for the late answer, when it comes to that.
        store.store_late(ticket, answer, request_id=request.headers.get(REQUEST_HEADER, ""))
    return front.hand_over(late, ticket)
