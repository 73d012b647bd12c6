"""Fronts, one file each: how a held answer is said in a front's language.

A file `<front>.py` here, or any module named by its dotted path, is all it takes. It has

- `HOLDS`: False where the app's own worker waits (then nothing else is needed);
- `REMOTE`: True where another process gives the answer, and finds the late one in Redis;
- `hand_over(late, ticket) -> HttpResponse`: what the app answers to its front.
"""

from __future__ import annotations

import keyword
from importlib import import_module
from typing import Protocol, cast

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse

from offload import conf


class Backend(Protocol):
    """A front's file."""

    HOLDS: bool
    REMOTE: bool

    def hand_over(self, late: HttpResponse, ticket: str) -> HttpResponse: ...


def load(name: str) -> Backend:
    """Return the named front's file, or raise ImproperlyConfigured."""
    # `async` is a word of Python's own: its file has the customary underscore.
    path = name if "." in name else f"{__name__}.{name}{'_' if keyword.iskeyword(name) else ''}"
    try:
        return cast(Backend, import_module(path))
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise ImproperlyConfigured(f"OFFLOAD['BACKEND']: there is no front {name!r}") from None


def current() -> Backend:
    """Return the project's front."""
    return load(conf.current().backend)


def bare(status: int, header: str, value: str) -> HttpResponse:
    """Return an answer with that header and nothing else.

    Everything the client gets comes from the hub; a Set-Cookie here would reach it twice.
    """
    response = HttpResponse(status=status)
    del response["Content-Type"]
    response[header] = value
    return response
