"""Turns a held answer into the front's language, after all other middleware has seen it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from offload import backends, conf, store
from offload.arrival import note_arrival
from offload.conversion import to_answer
from offload.protocol import REQUEST_HEADER, make_ticket
from offload.verbs import Hold


class OffloadMiddleware:
    """Outermost in MIDDLEWARE: the late answer is kept with everybody's headers on it."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        note_arrival(request)
        if self._is_async:
            return self._answer_async(request)
        response: HttpResponseBase = self._get_response(request)
        return hand_over(response, _request_id(request))

    async def _answer_async(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = await self._get_response(request)
        if backends.current().REMOTE and hasattr(response, "offload_hold"):
            return await sync_to_async(hand_over, thread_sensitive=False)(
                response, _request_id(request)
            )
        return hand_over(response)


def _request_id(request: HttpRequest) -> str:
    return request.headers.get(REQUEST_HEADER, "")


def hand_over(response: HttpResponseBase, request_id: str = "") -> HttpResponseBase:
    """Return what the front is told of a held answer; any other one unchanged."""
    hold: Hold | None = getattr(response, "offload_hold", None)
    if hold is None or not isinstance(response, HttpResponse):
        return response
    ticket = make_ticket(
        conf.current().secret, hold.hold_id, account=hold.account, deadline=hold.deadline
    )
    backend = backends.current()
    if backend.REMOTE:
        # Without Redis the hub asks the app for the late answer, when it comes to that.
        store.store_late(ticket, to_answer(response), request_id=request_id)
    return backend.hand_over(response, ticket)
