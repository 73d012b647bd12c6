"""Middleware that serves static files, under WSGI and ASGI without an extra thread."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware
from whitenoise.middleware import WhiteNoiseMiddleware


@sync_and_async_middleware
def static_files(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Serve static files; else pass on.

    WhiteNoise itself is synchronous: before an async view it would keep a thread waiting for as
    long as the view waits, which is what async views are there to avoid.
    """
    files: Any = WhiteNoiseMiddleware(get_response)
    if not iscoroutinefunction(get_response):
        return files

    async def answer(request: HttpRequest) -> Any:
        find = files.find_file if files.autorefresh else files.files.get
        static_file = await sync_to_async(find)(request.path_info)
        if static_file is None:
            return await get_response(request)
        return await sync_to_async(files.serve)(static_file, request)

    return answer
