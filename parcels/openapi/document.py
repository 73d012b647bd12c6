"""Put the document together: drf-spectacular walks the routes, the table says what they do."""

import functools
import json
import re
import threading
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from rest_framework.exceptions import APIException

from parcels import limits
from parcels.openapi.components import COMPONENTS
from parcels.openapi.operations import GROUPS, JSON, OPERATIONS, Operation
from parcels.openapi.shapes import ID, TEXT, Shape, ref
from parcels.serializers import ParcelIn

Endpoint = tuple[str, str, str, Any]

PREFIX = "/api/v2/"
# The library imports what its extensions are for in place: not in two threads at once.
_MAKING = threading.Lock()
_PARAMETER = re.compile(r"\{(\w+)\}")
_PRINTERS = ("normal_printer", "label_printer")
# What any route may answer, with what it means and what it says; none of it is worth a row in each
# of the table's entries.
COMMON_ERRORS = {
    400: (
        "Something in the request can't be read or is refused",
        "weight: 'A valid number is required.'",
    ),
    401: ("The keys are missing or wrong", "Authentication credentials were not provided."),
    403: (
        "A browser would write for a page of another origin",
        "A page of another origin may not send this.",
    ),
    406: (
        "The requested format is not available",
        "Could not satisfy the request Accept header.",
    ),
    413: ("The body is too large", "The body is too large."),
    429: (
        "Too many requests; `Retry-After` says when",
        "Request was throttled. Expected available in 7 seconds.",
    ),
    503: (
        "The database is not available",
        "The database is not available. Repeat the request with the same Idempotency-Key or "
        "external_reference.",
    ),
}
OTHER_ERRORS = {
    404: ("Your account has nothing with this id", "No Parcel matches the given query."),
    409: ("It conflicts with stored data", "Idempotency-Key: 'What it made was deleted.'"),
    422: (
        "The Idempotency-Key was used with another body",
        "Idempotency-Key: 'It was used with another request.'",
    ),
}
ABOUT = """
A parcel is created by one request; its label comes with the answer (`request_label`) or later
(`request_label_async`). *Authorize* takes the public key as user and the secret key as password:
`make run` prints both. Each error has the same form, and its message names the field.
""".strip()


class DialectSchema(AutoSchema):
    """Describes a view by the table's entry for its route."""

    def get_operation(
        self, path: str, path_regex: str, path_prefix: str, method: str, registry: Any
    ) -> dict[str, Any] | None:
        self.path, self.method, self.registry = path, method, registry
        name = route_name(path)
        entry = OPERATIONS[name, method]
        for serializer, partial in self._read_by(name):
            self.resolve_serializer(serializer(partial=partial), "request")
        return described(name, path, method, entry)

    @staticmethod
    def _read_by(name: str) -> list[tuple[Any, bool]]:
        """Return the serializers that read this route's bodies, so that they become components."""
        from parcels.views.integrations import IntegrationIn
        from parcels.views.webhooks import EndpointIn

        named: dict[str, Any] = {
            "parcels": ParcelIn,
            "webhooks": EndpointIn,
            "webhook": EndpointIn,
            "integration": IntegrationIn,
        }
        return [(named[name], partial) for partial in (False, True)] if name in named else []


def route_name(path: str) -> str:
    """Return the name of the route that serves a path of the document."""
    from django.urls import resolve

    example = _PARAMETER.sub(lambda match: "label" if match[1] == "kind" else "1", path)
    return resolve(example).url_name or ""


def described(name: str, path: str, method: str, entry: Operation) -> dict[str, Any]:
    """Return OpenAPI's object for one operation."""
    parameters = [*map(path_parameter, _PARAMETER.findall(path)), *entry.parameters]
    operation: dict[str, Any] = {
        "operationId": operation_id(name, path, method),
        "summary": entry.summary,
        "tags": [path.removeprefix(PREFIX).split("/")[0]],
        "security": [{"keys": []}],
        "responses": responses(entry, path),
    }
    if parameters:
        operation["parameters"] = parameters
    if entry.body is not None:
        content = {"schema": entry.body} | ({"example": entry.example} if entry.example else {})
        operation["requestBody"] = {"required": True, "content": {JSON: content}}
    return operation


def operation_id(name: str, path: str, method: str) -> str:
    """Return a name that is unique: a printer's route is several paths."""
    printer = next((f"_{printer}" for printer in _PRINTERS if printer in path), "")
    which = "_one" if printer and "{" in path else ""
    return f"{method.lower()}_{name}{printer}{which}"


def path_parameter(name: str) -> Shape:
    """Return a parameter of the path; ids are numbers, the others words."""
    shape: Shape = {**ID, "maximum": limits.INTEGER} if name.endswith("_id") else TEXT
    if name == "kind":
        shape = {"type": "string", "pattern": "^[a-z0-9-]+$"}
    return {"in": "path", "name": name, "required": True, "schema": shape}


def responses(entry: Operation, path: str) -> dict[str, Any]:
    """Return every answer by its status."""
    has_id = "{" in path
    found: dict[str, Any] = {str(status): answer(shape) for status, shape in entry.answers.items()}
    if "202" in found:
        found["202"]["description"] = "Accepted: the result comes later"
    errors = {*COMMON_ERRORS, *entry.errors, *([404] if has_id else [])}
    for status in sorted(errors):
        words, message = (COMMON_ERRORS | OTHER_ERRORS)[status]
        shape: Shape = ref("Error")
        if status == 400 and entry.answers.get(200) == ref("Verdict"):
            shape = {"anyOf": [ref("Verdict"), shape]}
        example = {"error": {"code": status, "request": path.lstrip("/"), "message": message}}
        content = {JSON: {"schema": shape, "example": example}}
        found.setdefault(str(status), {"description": words, "content": content})
    return found


def answer(shape: Shape | tuple[str, ...] | None) -> dict[str, Any]:
    """Return one answer's object."""
    if shape is None:
        return {"description": "Done"}
    if isinstance(shape, tuple):
        return {"description": "The document", "content": {kind: {} for kind in shape}}
    return {"description": "The answer", "content": {JSON: {"schema": shape}}}


def paths_of_the_dialect(endpoints: list[Endpoint]) -> list[Endpoint]:
    """Keep the API's own routes, without the slash at their end, a printer's route taken apart."""
    kept: list[Endpoint] = []
    for path, regex, method, callback in endpoints:
        plain = path.rstrip("/")
        if not path.startswith(PREFIX) or (plain.split("/")[-1] in {"schema", "docs"}):
            continue
        if "{printer}" in plain:
            for printer in _PRINTERS:
                base = plain.partition("{printer}")[0] + printer
                kept += [(p, regex, method, callback) for p in (base, f"{base}/{{parcel_id}}")]
            continue
        kept.append((plain, regex, method, callback))
    return kept


def add_components(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the opening, the groups, the answers' shapes and the way of authenticating."""
    result["info"]["description"] = ABOUT
    result["tags"] = [{"name": name, "description": words} for name, words in GROUPS.items()]
    components = result.setdefault("components", {})
    components["schemas"] = {**components.get("schemas", {}), **COMPONENTS}
    components["securitySchemes"] = {
        "keys": {
            "type": "http",
            "scheme": "basic",
            "description": "Public key as user, secret key as password",
        }
    }
    return result


class CountryExtension(OpenApiSerializerFieldExtension):
    target_class = "parcels.serializers.Country"
    match_subclasses = True

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Shape:
        code: Shape = {"type": "string", "minLength": 2, "maxLength": 2}
        inside = {"type": "object", "required": ["iso_2"], "properties": {"iso_2": code}}
        null: list[Shape] = [{"type": "null"}] if self.target.allow_null else []
        return {"anyOf": [code, inside, *null]}


class ShipmentExtension(OpenApiSerializerFieldExtension):
    target_class = "parcels.serializers.Shipment"
    match_subclasses = True

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> Shape:
        number: Shape = {"type": "integer", "minimum": 1, "maximum": limits.INTEGER}
        inside = {"type": "object", "required": ["id"], "properties": {"id": number}}
        return {"anyOf": [inside, number]}


@functools.cache
def document() -> dict[str, Any]:
    """Return the document as a dictionary; made once per process, unless several ask at first."""
    try:
        with _MAKING:
            made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    except KeyError as error:
        raise APIException(f"no entry in OPERATIONS for {error}") from error
    return made


@functools.cache
def document_bytes() -> bytes:
    """Return the document as JSON."""
    return json.dumps(document()).encode()
