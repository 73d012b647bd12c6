"""A declared character set changes nothing, and ends no server's request."""

import io
from contextlib import closing
from typing import Any

import pytest
from django.test import RequestFactory

from shipping.wsgi import application


def answered(query: str, charset: str) -> int:
    """Return the status of a GET through the application as servers call it."""
    statuses: list[int] = []
    environ = {
        **RequestFactory().get("/healthz").environ,
        "CONTENT_TYPE": f"application/json; charset={charset}",
        "QUERY_STRING": query,
        "wsgi.input": io.BytesIO(),
        "CONTENT_LENGTH": "0",
    }

    def start(status: str, headers: Any, error: Any = None) -> Any:
        statuses.append(int(status.split(maxsplit=1)[0]))

    answer: Any = application(environ, start)
    with closing(answer) as body:
        list(body)
    return statuses[0]


@pytest.mark.django_db  # a request's begin looks at connections that other tests left
@pytest.mark.parametrize(
    ("query", "charset", "status"),
    [
        ("order_number=x", "utf-8", 200),
        ("order_number=x", "punycode", 200),
        ("%ff", "idna", 200),
        ("&".join("a" for _ in range(1100)), "utf-8", 400),
    ],
)
def test_the_application_answers(query: str, charset: str, status: int) -> None:
    assert answered(query, charset) == status
