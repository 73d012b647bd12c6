"""Reading and writing JSON bodies, with every assumption checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from carriers.base import Refused
from carriers.errors import CarrierAnswerUnreadable
from carriers.shapes import documents


def dump(value: object) -> bytes:
    """Write a body."""
    return json.dumps(value, separators=(",", ":")).encode()


def load(body: bytes) -> Mapping[str, Any]:
    """Read a body that must be an object."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:  # deep nesting ends in a RecursionError
        raise CarrierAnswerUnreadable("the answer is no JSON") from error
    return member(value, "the answer")


def member(value: object, name: str) -> Mapping[str, Any]:
    """Take a value that must be an object."""
    if not isinstance(value, dict):
        raise CarrierAnswerUnreadable(f"{name} is no object")
    return value


def members(value: object, name: str) -> list[Mapping[str, Any]]:
    """Take a value that must be a list of objects."""
    if not isinstance(value, list):
        raise CarrierAnswerUnreadable(f"{name} is no list")
    return [member(entry, name) for entry in value]


def refusal(body: bytes, code: str = "code", message: str = "message") -> Refused | None:
    """Read a documented refusal; None where the body is anything else."""
    try:
        said = load(body)
    except CarrierAnswerUnreadable:
        return None
    return refusal_of(said, code, message)


def refusal_of(said: Mapping[str, Any], code: str, message: str) -> Refused | None:
    """Read a refusal from an object."""
    if not isinstance(said.get(code), str) or not said[code]:
        return None
    return documents.refused(said[code], said.get(message))
