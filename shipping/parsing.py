"""Reading request bodies."""

from collections.abc import Mapping
from typing import IO, Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class AnyTypeJSONParser(JSONParser):
    """Read the body as JSON whatever its label says.

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
            return super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise ParseError("JSON parse error - nested too deeply") from None
