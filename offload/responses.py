"""What becomes of Django's responses on their way: rendered, read, and made of answers."""

import logging
from http.cookies import CookieError, Morsel, SimpleCookie
from typing import Any

from django.contrib.messages.storage.cookie import CookieStorage
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.module_loading import import_string

from offload.protocol import BODILESS, Answer

logger = logging.getLogger("offload")

MOST_TEXT = 255  # characters of renderer_of


def renderer_of(request: Any) -> str:
    """Return as text how DRF renders for this client, class and media type; "" for Django's own."""
    renderer = getattr(request, "accepted_renderer", None)
    # The browsable API is a page around a view, and none is there where the outcome is made.
    if renderer is None or renderer.format == "api":
        return ""
    kind = type(renderer)
    path = f"{kind.__module__}.{kind.__qualname__}"
    text = f"{path} {request.accepted_media_type}"
    # The client's own parameters may be longer than the column.
    return text if len(text) <= MOST_TEXT else f"{path} {kind.media_type}"


class _Stored(HttpResponse):
    """A test client that follows a redirect asks for its `url`."""

    url = property(lambda self: self["Location"])


def to_response(answer: Answer) -> HttpResponse:
    """Return the answer as Django's response."""
    body = b"" if answer.status in BODILESS else answer.body  # an older version stored one
    response = _Stored(body, status=answer.status)
    del response["Content-Type"]
    for name, value in answer.headers:
        if name.lower() == "set-cookie":
            _set_cookie(response, value)
        else:
            response[name] = value
    if answer.status not in BODILESS:  # without it uWSGI ends a cut one as a whole one
        response["Content-Length"] = str(len(body))
    return response


def _set_cookie(response: HttpResponse, header: str) -> None:
    """Set a cookie that leaves as it came, also with attributes that `http.cookies` doesn't know.

    It would drop such a cookie (Partitioned, before Python 3.14), or make a second one of it.
    """
    try:
        header.encode("ascii")  # as Django's ASGI handler encodes cookies
        known = SimpleCookie(header)
        if [each.OutputString() for each in known.values()] == [header]:
            response.cookies.update(known)
        else:
            name, _, rest = header.partition("=")
            cookie: Morsel[str] = Morsel()
            cookie.set(name, rest.partition(";")[0], rest)
            response.cookies[name] = cookie
    except (CookieError, UnicodeEncodeError):  # or a name that http.cookies refuses
        response["Set-Cookie"] = header


def add_message(
    response: HttpResponse, level: int, message: str, extra_tags: str = ""
) -> HttpResponse:
    """Show the message on the client's next page: it goes as a signed cookie with the response.

    For a worker, which has no session. MESSAGE_STORAGE must read cookies, as Django's default does.
    It takes the place of messages that the view has added before it waits.
    """
    request = HttpRequest()
    if earlier := response.cookies.get(CookieStorage.cookie_name):
        request.COOKIES[CookieStorage.cookie_name] = earlier.value
    storage = CookieStorage(request)
    storage.add(level, message, extra_tags)
    storage.update(response)
    return response


def render(response: Any, text: str) -> None:
    """Render a template response, or DRF's as `renderer_of` said, else by the project's first.

    By the first, too, where that one wants more than there is: DRF's for templates want a view.
    """
    if not hasattr(response, "data") or hasattr(response, "accepted_renderer"):
        response.render()
        return
    # DRF's: its view would have chosen by the request.
    from rest_framework.settings import api_settings

    path, _, media_type = text.partition(" ")
    first: Any = api_settings.DEFAULT_RENDERER_CLASSES
    try:
        _render_by(import_string(path) if path else first[0], response, media_type)
    except Exception:
        if not path:
            raise
        logger.warning("%s does not render an outcome", path, exc_info=True)
        _render_by(first[0], response, "")


def _render_by(kind: Any, response: Any, media_type: str) -> None:
    response.accepted_renderer = renderer = kind()
    response.accepted_media_type = media_type or renderer.media_type
    response.renderer_context = {"response": response}
    response.render()


def read_stream(stream: StreamingHttpResponse, most: int) -> bytes:
    """Return the stream's bytes, up to the chunk that makes them more than `most`."""
    if stream.is_async:
        raise TypeError("an asynchronous stream can't be read where it is released")
    body = bytearray()
    try:
        for chunk in stream:
            body += chunk
            if len(body) > most:
                break
    finally:
        if file := getattr(stream, "file_to_stream", None):
            file.close()
    return bytes(body)
