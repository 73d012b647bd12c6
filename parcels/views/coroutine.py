"""Views that wait, as coroutines where the strategy says so."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from parcels.services.awaiting import finish, views_are_coroutines


def waiting(view: Callable[..., Any]) -> Callable[..., Any]:
    """Return the view, or a coroutine around it that awaits what it has begun.

    REST framework's views are plain functions: reading, checking and storing happen in the
    request's thread, and only the waiting outside it.
    """
    if not views_are_coroutines():
        return view

    @csrf_exempt  # as REST framework's own views are: no cookie logs anyone in here
    async def coroutine(request: HttpRequest, **arguments: Any) -> HttpResponse:
        return await finish(await sync_to_async(view)(request, **arguments))

    # What the OpenAPI document knows a view by.
    for name in ("cls", "initkwargs"):
        setattr(coroutine, name, getattr(view, name))
    return coroutine
