"""JSON values that are too deep to be sent back, too large, or whose texts can't be stored."""

import json
import re
from typing import Any

from rest_framework.exceptions import ValidationError

from parcels import limits

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
UNSTORABLE = "NUL and half surrogate pairs are not allowed."


def is_too_deep(value: Any) -> bool:
    """Tell whether containers are nested deeper than they may be."""
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


def check_sizes(bodies: list[Any], length: int) -> None:
    """Check how much there is to validate; `length` is the whole request's, in bytes.

    Raises:
        ValidationError: a parcel is too large, or there are too many items.
    """
    # A body that is no longer than a parcel may be has none that is.
    if length > limits.PARCEL and any(_size(body) > limits.PARCEL for body in bodies):
        raise ValidationError(f"At most {limits.PARCEL} bytes for one parcel.")
    items = [body.get("parcel_items") for body in bodies if isinstance(body, dict)]
    if sum(len(some) for some in items if isinstance(some, list)) > limits.ITEMS_IN_ALL:
        raise ValidationError(f"At most {limits.ITEMS_IN_ALL} items at once.")


def _size(body: Any) -> int:
    return len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
