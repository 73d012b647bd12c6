"""django.contrib.messages from a worker, which has neither request nor session."""

from __future__ import annotations

from django.contrib.messages.storage.cookie import CookieStorage
from django.http import HttpRequest, HttpResponse


def add_message(response: HttpResponse, level: int, message: str, extra_tags: str = "") -> None:
    """Show the message on the client's next page: it goes as a signed cookie with the response.

    For MESSAGE_STORAGE that reads cookies: Django's default, and CookieStorage.
    """
    request = HttpRequest()
    if earlier := response.cookies.get(CookieStorage.cookie_name):
        request.COOKIES[CookieStorage.cookie_name] = earlier.value
    storage = CookieStorage(request)
    storage.add(level, message, extra_tags)
    storage.update(response)
