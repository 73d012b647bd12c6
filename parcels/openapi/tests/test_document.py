"""The document: valid, complete, and a checker that would notice a lie."""

import functools
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock
from typing import Any

import pytest
from django.http import HttpResponse, JsonResponse
from django.test import Client
from django.urls import URLPattern, get_resolver
from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator

from deploy.plan import ROOT
from parcels import urls
from parcels.openapi.document import document
from parcels.openapi.operations import GROUPS, OPERATIONS
from parcels.openapi.tests.contract import Untrue, check_answer, template_of
from parcels.serializers import ParcelIn
from parcels.services.idempotency import KeyReused, MadeAndDeleted
from parcels.tests.factories import AccountFactory, LabelledParcelFactory
from parcels.tests.requests import Shop, body
from shipping.exceptions import TooLarge, Unavailable

ABOUT_ITSELF = {"schema", "docs"}


def test_first_requests_at_once_make_it_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library resolves its extensions' classes in place: a second thread finds them half so."""
    start, making = Barrier(4), Lock()

    def get_schema(*_: Any, **__: Any) -> dict[str, Any]:
        assert making.acquire(blocking=False), "two at once"
        time.sleep(0.02)  # for the others to come in
        making.release()
        return {}

    def ask(_: int) -> dict[str, Any]:
        start.wait(30)
        return make_document()

    make_document = functools.cache(document.__wrapped__)
    monkeypatch.setattr(SchemaGenerator, "get_schema", get_schema)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [{}] * 4


def test_it_is_openapi_3_1_and_each_shape_is_a_schema() -> None:
    assert document()["openapi"].startswith("3.1")
    for shape in document()["components"]["schemas"].values():
        Draft202012Validator.check_schema(shape)


def test_every_route_and_method_is_in_it() -> None:
    routes: dict[str, Any] = {
        pattern.name or "": pattern.callback
        for pattern in urls.urlpatterns
        if isinstance(pattern, URLPattern)
    }
    for name in set(routes) - ABOUT_ITSELF:
        methods = {
            m.upper()
            for m in ("get", "post", "put", "patch", "delete")
            if hasattr(routes[name].cls, m)
        }
        assert {method for route, method in OPERATIONS if route == name} == methods, name
    documented = {
        operation["operationId"]
        for path in document()["paths"].values()
        for operation in path.values()
    }
    assert len(documented) >= len([key for key in OPERATIONS if key[0] in routes])


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(document())
    names = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert names <= set(document()["components"]["schemas"])


def test_operation_ids_are_unique() -> None:
    ids = [o["operationId"] for path in document()["paths"].values() for o in path.values()]
    assert len(ids) == len(set(ids))


def test_the_document_is_served_to_everybody(client: Client) -> None:
    response = client.get("/api/v2/schema")
    assert response.status_code == 200
    assert json.loads(response.content) == json.loads(json.dumps(document()))


@pytest.mark.parametrize("path", ["schema", "docs"])
@pytest.mark.parametrize("method", ["OPTIONS", "POST", "PUT", "PATCH", "DELETE"])
def test_both_are_for_reading_only(path: str, method: str) -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    response = client.generic(method, f"/api/v2/{path}")
    assert (response.status_code, response.get("Allow")) == (405, "GET, HEAD")
    error = response.json()["error"]
    assert (error["code"], error["request"]) == (405, f"api/v2/{path}")


def test_the_page_loads_nothing_from_elsewhere(client: Client) -> None:
    page = client.get("/api/v2/docs")
    script = client.get("/api/v2/docs?script=")
    assert (page.status_code, script.status_code) == (200, 200)
    text = page.content.decode() + script.content.decode()
    assert not re.findall(r"(?:src|href)=[\"'](?:https?:)?//", text)
    assert "'unsafe-inline'" not in page["Content-Security-Policy"].partition("style-src")[0]
    # No inline script: the policy would stop it.
    assert not re.findall(r"<script(?![^>]*\bsrc=)[^>]*>", page.content.decode())
    assets = re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", page.content.decode())
    assert assets
    for asset in assets:
        assert client.get(asset).status_code == 200, asset


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/api/v2/parcels", "/api/v2/parcels"),
        ("/api/v2/parcels/statuses", "/api/v2/parcels/statuses"),
        ("/api/v2/parcels/7", "/api/v2/parcels/{parcel_id}"),
        ("/api/v2/labels/label_printer/7", "/api/v2/labels/label_printer/{parcel_id}"),
        ("/api/v2/nothing", None),
    ],
)
def test_an_address_finds_its_template(path: str, template: str | None) -> None:
    assert template_of(path) == template


def test_the_page_begins_with_what_people_come_for() -> None:
    made = document()
    assert [tag["name"] for tag in made["tags"]][:2] == ["parcels", "labels"]
    used = {tag for path in made["paths"].values() for o in path.values() for tag in o["tags"]}
    assert used == set(GROUPS)
    assert "Authorize" in made["info"]["description"]


[_BODY] = re.findall(r"parcels -d '(\{.*?\})'$", (ROOT / "README.md").read_text(), re.M | re.S)
README_BODY = json.loads(_BODY)


@pytest.mark.django_db
def test_the_example_is_the_readmes_and_is_accepted() -> None:
    content = document()["paths"]["/api/v2/parcels"]["post"]["requestBody"]["content"]
    assert content["application/json"]["example"] == README_BODY
    assert ParcelIn(data=README_BODY["parcel"]).is_valid()


@pytest.mark.parametrize("key", [key for key, each in OPERATIONS.items() if each.example])
def test_an_example_fits_its_shape(key: tuple[str, str]) -> None:
    entry = OPERATIONS[key]
    shape = {**(entry.body or {}), "components": document()["components"]}
    Draft202012Validator(shape).validate(entry.example)


@pytest.mark.django_db
def test_a_shown_error_is_the_one_that_comes() -> None:
    shop = Shop(AccountFactory.create())

    def shown(path: str, method: str, status: int) -> Any:
        answer = document()["paths"][path][method]["responses"][str(status)]
        return answer["content"]["application/json"]["example"]

    parcels = "/api/v2/parcels"
    assert shop.post("parcels", {"parcel": body(weight="heavy")}).json() == shown(
        parcels, "post", 400
    )
    assert Client().get(parcels).json() == shown(parcels, "get", 401)
    gone = shop.get("parcels/77").json()
    gone["error"]["request"] = "api/v2/parcels/{parcel_id}"
    assert gone == shown("/api/v2/parcels/{parcel_id}", "get", 404)
    assert shown(parcels, "post", 422)["error"]["message"] == KeyReused.default_detail
    assert shown(parcels, "post", 409)["error"]["message"] == MadeAndDeleted.default_detail
    assert shown(parcels, "post", 413)["error"]["message"] == TooLarge.default_detail
    assert shown(parcels, "get", 503)["error"]["message"] == Unavailable.default_detail


def error(status: int, **changes: Any) -> JsonResponse:
    """Return an error answer, as it should be but for the changes."""
    body = {"code": status, "request": "x", "message": "y"} | changes
    return JsonResponse({"error": body}, status=status)


@pytest.mark.parametrize(
    ("method", "path", "response"),
    [
        ("GET", "/api/v2/user", JsonResponse({"user": {"id": 1}})),
        ("GET", "/api/v2/user", error(418)),
        ("GET", "/api/v2/user", error(401, code="401")),
        ("GET", "/api/v2/user", error(401, more=1)),
        ("GET", "/api/v2/user", HttpResponse("<html>")),
        ("DELETE", "/api/v2/user", JsonResponse({})),
        ("GET", "/api/v2/nothing", JsonResponse({})),
        ("DELETE", "/api/v2/webhooks/1", HttpResponse("gone", status=204)),
    ],
)
def test_the_checker_notices_a_lie(method: str, path: str, response: Any) -> None:
    """The control of all the suite's answers: these must not pass."""
    response.json = lambda: json.loads(response.content)
    with pytest.raises(Untrue):
        check_answer(method, path, response)


@pytest.mark.django_db
def test_the_suites_shop_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer with a field that nobody wrote down turns a test red."""
    parcel = LabelledParcelFactory.create()
    shop = Shop(parcel.account)
    shop.get(f"parcels/{parcel.pk}")
    monkeypatch.setattr("parcels.representation.country_payload", lambda code: {"iso_2": code})
    with pytest.raises(Untrue, match="iso_3"):
        shop.get(f"parcels/{parcel.pk}")


def test_the_routes_are_those_of_the_project() -> None:
    assert get_resolver().resolve("/api/v2/schema").url_name == "schema"
