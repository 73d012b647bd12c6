"""Reading request bodies; refuses values that can't be stored or sent back, or cost too much."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.parsers import JSONParser
from rest_framework.utils.json import strict_constant

from parcels import limits

# The escapes that stand for what no database takes, or UTF-8 can't have. A pair of surrogates is
# one character, and a backslash may be escaped itself: a find is looked at, not refused.
_SUSPECT = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
UNSTORABLE = "NUL and half surrogate pairs are not allowed."
TOO_DEEP = f"JSON parse error - nested deeper than {limits.DEPTH}"


class AnyTypeJSONParser(JSONParser):
    """Read the body as JSON, whatever its Content-Type.

    Published clients of this dialect send JSON without a Content-Type, and one sends a form
    labelled JSON: the first must work, the second is a 400 like any other malformed body.
    """

    media_type = "*/*"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        try:
            return read_json(stream.read().decode())  # JSON is UTF-8: see shipping.charset
        except ValueError as error:
            raise ParseError(f"JSON parse error - {error}") from None
        except RecursionError:
            raise ParseError(TOO_DEEP) from None


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is none, or a number in it is too long or too large.
        ParseError, ValidationError: it has too many values, is too deep, or has unstorable text.
    """
    containers = text.count("{") + text.count("[")
    if containers + text.count(",") > limits.VALUES:  # each is counted before it takes memory
        raise ParseError(f"JSON parse error - more than {limits.VALUES} values")
    value = _DECODER.decode(text)
    if containers > limits.DEPTH and _is_too_deep(value):
        raise ParseError(TOO_DEEP)
    if _SUSPECT.search(text):
        check_texts(value)
    return value


def _whole(literal: str) -> int:
    if len(literal) > limits.NUMBER:
        raise ValueError(f"a number of more than {limits.NUMBER} characters")
    return int(literal)


def _real(literal: str) -> float:
    if len(literal) > limits.NUMBER:
        raise ValueError(f"a number of more than {limits.NUMBER} characters")
    value = float(literal)
    if not math.isfinite(value):
        raise ValueError("a number is out of range")
    return value


# Made once: a decoder with hooks costs as much to make as a parcel to read.
_DECODER = json.JSONDecoder(parse_int=_whole, parse_float=_real, parse_constant=strict_constant)


def _is_too_deep(value: Any) -> bool:
    layer = [value]
    for _ in range(limits.DEPTH + 1):
        layer = [outer for outer in layer if isinstance(outer, dict | list)]
        if not layer:
            return False
        layer = [
            inner
            for outer in layer
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return True


def check_texts(value: Any, path: str = "") -> None:
    """Refuse NUL and lone surrogates anywhere in a value that is not too deep.

    Raises:
        ValidationError: by dotted path, as far as its names are fit to be sent back.
    """
    if isinstance(value, str):
        if _UNSTORABLE.search(value):
            raise ValidationError({path: [UNSTORABLE]} if path else [UNSTORABLE])
    elif isinstance(value, dict):
        for name, inner in value.items():
            check_texts(name, path)
            known = name.isidentifier() and len(name) <= limits.NUMBER
            check_texts(inner, f"{path}.{name}".lstrip(".") if known else path)
    elif isinstance(value, list):
        for inner in value:
            check_texts(inner, path)
