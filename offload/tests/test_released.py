"""What may be released: any response that has an end; for all else the client gets a 500 now."""

import io
import logging
import uuid

import pytest
from django.http import (
    FileResponse,
    HttpResponse,
    HttpResponseRedirect,
    JsonResponse,
    StreamingHttpResponse,
)
from django.template import engines
from django.template.response import SimpleTemplateResponse
from rest_framework.response import Response
from rest_framework.status import HTTP_409_CONFLICT

import offload
from offload import resolving
from offload.protocol import Answer
from offload.responses import to_response
from offload.store import to_answer
from offload.tests import outcomes

TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]


@pytest.fixture(autouse=True)
def released(offload_settings, stored):
    """Return what is stored, by hold id."""
    offload_settings({"TEMPLATES": TEMPLATES}, MAX_ANSWER=1000)
    return stored


def template():
    return SimpleTemplateResponse(engines["django"].from_string("{{ a }}!"), {"a": "hello"})


@pytest.mark.parametrize(
    ("make", "status", "body"),
    [
        (template, 200, b"hello!"),
        (lambda: Response({"a": 1}, status=HTTP_409_CONFLICT), 409, b'{"a":1}'),
        (lambda: {"a": 1}, 200, b'{"a": 1}'),
        (lambda: StreamingHttpResponse([b"a", b"b"]), 200, b"ab"),
        (lambda: FileResponse(io.BytesIO(b"abc")), 200, b"abc"),
    ],
    ids=["template", "DRF", "dict", "stream", "file"],
)
def test_it_is_rendered(released, hold_id, make, status, body):
    assert offload.release(hold_id, make()) is True
    assert (released[hold_id].status, released[hold_id].body) == (status, body)


def test_a_drf_response_is_json_by_the_project_s_renderer(released, hold_id):
    offload.release(hold_id, Response({"a": 1}))
    assert ("Content-Type", "application/json") in released[hold_id].headers


def test_a_redirect_can_be_followed_by_a_test_client(released, hold_id):
    offload.release(hold_id, HttpResponseRedirect("/next"))
    assert getattr(to_response(released[hold_id]), "url", None) == "/next"


async def chunks():
    yield b"a"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: HttpResponse(b"x" * 1001), ValueError),
        (lambda: StreamingHttpResponse(iter([b"x" * 600, b"x" * 600])), ValueError),
        (lambda: StreamingHttpResponse(chunks()), TypeError),
        (lambda: Response(object()), TypeError),
        (object, TypeError),
    ],
    ids=["too large", "stream without end", "asynchronous stream", "unrenderable", "no response"],
)
def test_what_can_t_be_is_a_500_at_once_and_an_error_here(released, hold_id, make, error):
    with pytest.raises(error):
        offload.release_many({"f" * 32: JsonResponse({}), hold_id: make()})
    assert released[hold_id].status == 500
    assert released["f" * 32].status == 200  # the others are not to wait for that


def test_what_the_app_is_asked_for_is_treated_alike(hold_id, caplog, monkeypatch):
    """One bad answer among many must not take the others' away."""
    good = "e" * 32
    found = {hold_id: HttpResponse(b"x" * 1001), good: {"a": 1}}
    monkeypatch.setattr(outcomes, "resolve", lambda hold_ids, *, final_only: found)
    with caplog.at_level(logging.ERROR):
        answers = resolving.resolve([hold_id, good], final_only=True)
    assert (answers[hold_id].status, answers[good].body) == (500, b'{"a": 1}')
    assert hold_id in caplog.text


def test_the_app_may_name_its_holds_by_uuid(hold_id, monkeypatch):
    """As a UUIDField gives them."""
    found = {uuid.UUID(hold_id): HttpResponse("a"), "no uuid": HttpResponse("b")}
    monkeypatch.setattr(outcomes, "resolve", lambda hold_ids, *, final_only: found)
    answers = resolving.resolve([hold_id], final_only=True)
    assert {key: answer.body for key, answer in answers.items()} == {hold_id: b"a"}


@pytest.mark.parametrize(
    "cookie",
    [
        "a=1; HttpOnly; Path=/; SameSite=Lax",
        'a="1\\0542"; Path=/',
        "a=1; Path=/; Partitioned",
        "a=1; Priority=High; path=/",
        'a={"b": 1}; Path=/',
        "a@b=1",
        "a=\xe9; Path=/",
    ],
)
def test_a_cookie_leaves_as_it_came(cookie):
    answer = Answer(204, (("Set-Cookie", cookie),), b"")
    response = to_response(answer)
    assert to_answer(response) == answer
    # Under ASGI Django raises for another one; it does not for a header.
    assert all(each.OutputString().isascii() for each in response.cookies.values())


def test_a_cookie_with_known_attributes_can_be_changed():
    response = to_response(Answer(204, (("Set-Cookie", "a=1; Path=/"),), b""))
    response.cookies["a"]["secure"] = True
    assert to_answer(response).headers == (("Set-Cookie", "a=1; Path=/; Secure"),)
