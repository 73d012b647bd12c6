"""WhiteNoise, also between coroutines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """Serve static files; else pass on.

    WhiteNoise itself is synchronous: before an async view it would keep a thread waiting for as
    long as the view waits, which is what async views are there to avoid.
    """

    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        super().__init__(get_response)
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self._answer(request) if self._is_async else super().__call__(request)

    async def _answer(self, request: HttpRequest) -> Any:
        find = self.find_file if self.autorefresh else self.files.get
        static_file = await sync_to_async(find)(request.path_info)
        if static_file is None:
            return await self.get_response(request)
        return await sync_to_async(self.serve)(static_file, request)
