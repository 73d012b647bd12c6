"""Django's responses as answers, and back."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.template.response import SimpleTemplateResponse

from offload import conf
from offload.answer import Answer


def to_answer(response: Any) -> Answer:
    """Return the response's status, headers with its cookies, and body.

    A template or DRF response is rendered, a stream read to its end, a dictionary becomes JSON.
    Raises TypeError for what is no response and ValueError for one over OFFLOAD["MAX_ANSWER"].
    """
    if isinstance(response, dict):
        response = JsonResponse(response)
    elif isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
        _render(response)
    if isinstance(response, StreamingHttpResponse):
        body = _read(response)
    elif isinstance(response, HttpResponse):
        body = response.content
    else:
        raise TypeError(f"an answer is a response or a dictionary, not {response!r}")
    _check_size(len(body))
    cookies = tuple(("Set-Cookie", morsel.OutputString()) for morsel in response.cookies.values())
    return Answer(response.status_code, (*response.items(), *cookies), body)


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


def _render(response: Any) -> None:
    if hasattr(response, "data") and not hasattr(response, "accepted_renderer"):
        # DRF's, and no request here to choose a renderer for it: the project's first one.
        from rest_framework.settings import api_settings

        renderer: Any = cast(Any, api_settings.DEFAULT_RENDERER_CLASSES)[0]()
        response.accepted_renderer = renderer
        response.accepted_media_type = renderer.media_type
        response.renderer_context = {"response": response}
    response.render()


def _read(stream: StreamingHttpResponse) -> bytes:
    if stream.is_async:
        raise TypeError("an asynchronous stream can't be read where it is released")
    body = bytearray()
    try:
        for chunk in stream:
            body += chunk
            _check_size(len(body))
    finally:
        if file := getattr(stream, "file_to_stream", None):
            file.close()
    return bytes(body)


def _check_size(size: int) -> None:
    most = conf.current().max_answer
    if size > most:
        raise ValueError(f"an answer has {most} bytes at most (OFFLOAD['MAX_ANSWER']), not {size}")
