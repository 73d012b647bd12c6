"""Requests whose text is UTF-8, whatever character set they declare.

JSON has no other (RFC 8259, 8.1). Django decodes the query by the declared one while it makes the
request, outside of all middleware: with a codec that fails, or a query of too many fields, no one
turns the exception into an answer. And some of Python's codecs take the square of a text's length.
"""

from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest


class _Utf8(HttpRequest):
    @HttpRequest.encoding.setter  # type: ignore[attr-defined] # the stubs have overloads
    def encoding(self, value: str | None) -> None:
        """Leave it None, which means Django's default: UTF-8."""


class Utf8WSGIRequest(_Utf8, WSGIRequest):
    """What `WSGIHandler.request_class` is here."""


class Utf8ASGIRequest(_Utf8, ASGIRequest):
    """What `ASGIHandler.request_class` is here."""
