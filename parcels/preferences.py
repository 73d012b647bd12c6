"""Read the `Prefer` header (RFC 7240) and the `wait` parameter."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rest_framework.exceptions import ValidationError

_WAIT = re.compile(r"^wait\s*=\s*\"?(\d{1,6})\"?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the client prefers; `wait` in seconds, None when it didn't say."""

    respond_async: bool = False
    wait: int | None = None


def read_preferences(header: str) -> Preferences:
    """Read a Prefer header. What isn't understood is ignored, as the RFC asks."""
    respond_async, wait = False, None
    for preference in header.split(","):
        name = preference.split(";")[0].strip()
        if name.lower() == "respond-async":
            respond_async = True
        elif wait is None and (match := _WAIT.match(name)):
            wait = int(match[1])
    return Preferences(respond_async, wait)


def read_wait(value: str | None) -> float | None:
    """Read `?wait=N`: seconds, or None when absent.

    Raises:
        ValidationError: it is not a number of seconds.
    """
    if value is None:
        return None
    if not re.fullmatch(r"\d{1,6}", value, re.ASCII):
        raise ValidationError({"wait": ["A whole number of seconds is needed."]})
    return float(value)
