"""Django's responses as answers, and back."""

from __future__ import annotations

from django.http import HttpResponse
from django.http.response import HttpResponseBase

from offload.answer import Answer


def to_answer(response: HttpResponseBase) -> Answer:
    """Return the response's status, headers with its cookies, and body."""
    if not isinstance(response, HttpResponse):
        raise TypeError("a streaming response has no end that could be stored or held")
    cookies = tuple(("Set-Cookie", morsel.OutputString()) for morsel in response.cookies.values())
    return Answer(response.status_code, (*response.items(), *cookies), response.content)


def to_response(answer: Answer) -> HttpResponse:
    """Return the answer as Django's response."""
    response = HttpResponse(answer.body, status=answer.status)
    del response["Content-Type"]
    for name, value in answer.headers:
        if name.lower() == "set-cookie":
            response.cookies.load(value)
        else:
            response[name] = value
    return response
