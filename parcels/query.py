"""Read ids and numbers from paths and queries; what can't be one gets a clear error."""

from __future__ import annotations

from collections.abc import Mapping

from rest_framework.exceptions import NotFound, ValidationError

from parcels.serializers import MAX_INTEGER

MAX_IDS = 100


def identifier(text: str) -> int:
    """Read an id from a path; one that no row can have is as unknown as any other."""
    # Why 18 digits: every one of them fits a bigint.
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise NotFound
    return int(text)


def identifiers(text: str, field: str) -> list[int]:
    """Read a comma list of at most 100 ids."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if len(words) > MAX_IDS:
        raise ValidationError({field: [f"At most {MAX_IDS} ids at once."]})
    if not all(word.isascii() and word.isdigit() and len(word) <= 18 for word in words):
        raise ValidationError({field: ["A comma-separated list of ids is needed."]})
    return [int(word) for word in words]


def small_integer(parameters: Mapping[str, str], name: str) -> int | None:
    """Read an optional whole number from the query."""
    text = parameters.get(name)
    if text is None or text == "":
        return None
    if not text.isascii() or not text.isdigit() or int(text[:12]) > MAX_INTEGER:
        raise ValidationError({name: ["A valid integer is required."]})
    return int(text)
