"""JSON Schema in few words."""

from typing import Any

Shape = dict[str, Any]

TEXT: Shape = {"type": "string"}
WHOLE: Shape = {"type": "integer"}
NUMBER: Shape = {"type": "number"}
FLAG: Shape = {"type": "boolean"}
ANYTHING: Shape = {}
ID: Shape = {"type": "integer", "minimum": 1}
LINK: Shape = {"type": "string", "format": "uri"}
MOMENT: Shape = {"type": "string", "format": "date-time"}
# Two dates by the dialect's clock: DD-MM-YYYY HH:MM:SS, in UTC.
DIALECT_DATE: Shape = {
    "type": "string",
    "pattern": r"^\d\d-\d\d-\d{4} \d\d:\d\d:\d\d$",
    "examples": ["22-11-2026 10:15:00"],
}


def or_null(shape: Shape) -> Shape:
    """Return the shape, or null."""
    if set(shape) == {"type"}:
        return {"type": [shape["type"], "null"]}
    return {"anyOf": [shape, {"type": "null"}]}


def listing(shape: Shape, **limits: int) -> Shape:
    """Return an array of it."""
    return {"type": "array", "items": shape, **limits}


def one_of(*values: Any) -> Shape:
    """Return an enumeration."""
    return {"enum": list(values)}


def record(*, optional: tuple[str, ...] = (), **fields: Shape) -> Shape:
    """Return an object with these fields and no others; all are always there but `optional`."""
    return {
        "type": "object",
        "properties": fields,
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


def ref(name: str) -> Shape:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}
