"""The base of our middleware: it serves under WSGI and ASGI without an extra thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class SyncAsyncMiddleware:
    """Calls `answer` or `answer_async`, as the next one is sync or async."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        return self.answer_async(request) if self._is_async else self.answer(request)

    def answer(self, request: HttpRequest) -> HttpResponseBase:
        """Answer where the next one is sync."""
        raise NotImplementedError

    async def answer_async(self, request: HttpRequest) -> HttpResponseBase:
        """Answer where the next one is a coroutine."""
        raise NotImplementedError
