"""Read ids and numbers from paths and queries; what can't be one gets a clear error."""

from collections.abc import Mapping

from rest_framework.exceptions import NotFound, ValidationError

from parcels import limits


def is_id(text: str) -> bool:
    """Tell whether a text is a number that an id can be."""
    return text.isascii() and text.isdigit() and len(text) <= limits.ID_DIGITS


def identifier(text: str) -> int:
    """Read an id from a path; an id that no row can have is simply not found."""
    if not is_id(text):
        raise NotFound
    return int(text)


def identifiers(text: str, field: str) -> list[int]:
    """Read at most 100 ids, separated by commas."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if len(words) > limits.IDS:
        raise ValidationError({field: [f"At most {limits.IDS} ids at once."]})
    if not all(map(is_id, words)):
        raise ValidationError({field: ["A comma-separated list of ids is needed."]})
    return [int(word) for word in words]


def small_integer(parameters: Mapping[str, str], name: str) -> int | None:
    """Read an optional whole number from the query."""
    text = parameters.get(name)
    if text is None or text == "":
        return None
    # By its length first: int() raises ValueError at thousands of digits.
    fits = len(text) <= len(str(limits.INTEGER)) and text.isascii() and text.isdigit()
    if not fits or int(text) > limits.INTEGER:
        raise ValidationError({name: ["A valid integer is required."]})
    return int(text)


def word(parameters: Mapping[str, str], name: str) -> str:
    """Read an optional text from the query; empty where there is none."""
    text = parameters.get(name, "")
    if len(text) > limits.TEXT or "\0" in text:
        raise ValidationError({name: [f"At most {limits.TEXT} characters, and no NUL."]})
    return text
