"""Check an answer against the OpenAPI document: what isn't written there isn't true."""

import functools
import re
from typing import Any

from django.http import HttpResponseBase
from jsonschema import Draft202012Validator

from parcels.openapi.document import document

METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE"}


class Untrue(AssertionError):
    """An answer that the document doesn't know."""


def check_answer(method: str, path: str, response: HttpResponseBase) -> None:
    """Raise Untrue when the document doesn't have this answer."""
    template = template_of(path.partition("?")[0].rstrip("/"))
    status = response.status_code
    where = f"{method} {path}: {status}"
    if template is None or method not in METHODS:
        if status not in {401, 404, 405} and not path.startswith(
            ("/api/v2/schema", "/api/v2/docs")
        ):
            raise Untrue(f"{where} on a route that isn't there")
        return
    operation = document()["paths"][template].get(method.lower())
    if operation is None:
        if status not in {401, 405, 429}:
            raise Untrue(f"{where} by a method that isn't there")
        return
    answer = operation["responses"].get(str(status))
    if answer is None:
        raise Untrue(f"{where} is not in the document: {body_of(response)[:300]!r}")
    check_content(where, answer.get("content", {}), (template, method, status), response)


def check_content(
    where: str, content: dict[str, Any], key: tuple[str, str, int], response: HttpResponseBase
) -> None:
    if not content:
        if body_of(response):
            raise Untrue(f"{where} has a body")
        return
    kind = response["Content-Type"].partition(";")[0]
    if kind not in content:
        raise Untrue(f"{where} is {kind}, not one of {list(content)}")
    if kind == "application/json":
        errors = [error.message for error in validator(*key).iter_errors(response.json())]  # type: ignore[attr-defined]
        if errors:
            raise Untrue(f"{where}: {errors[:3]}")


def body_of(response: HttpResponseBase) -> bytes:
    return getattr(response, "content", b"")


@functools.cache
def validator(template: str, method: str, status: int) -> Draft202012Validator:
    found = document()["paths"][template][method.lower()]["responses"][str(status)]
    schema = found["content"]["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": document()["components"]})


@functools.cache
def patterns() -> list[tuple[re.Pattern[str], str]]:
    # Fixed paths first: /parcels/statuses is no parcel.
    templates = sorted(document()["paths"], key=lambda template: template.count("{"))
    return [(re.compile(pattern_of(template)), template) for template in templates]


def pattern_of(template: str) -> str:
    return re.sub(r"\{\w+\}", "[^/]+", re.sub(r"\{\w+_id\}", r"\\d+", template))


def template_of(path: str) -> str | None:
    return next((t for pattern, t in patterns() if pattern.fullmatch(path)), None)
