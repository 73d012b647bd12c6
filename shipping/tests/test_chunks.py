"""A body that came in chunks is read as every other, where the server undoes them."""

import io
import json
from contextlib import closing
from typing import Any

import pytest
from django.conf import settings
from django.test import RequestFactory

from parcels.tests.factories import AccountFactory
from parcels.tests.requests import Shop, body
from shipping.wsgi import application

MOST = settings.DATA_UPLOAD_MAX_MEMORY_SIZE


class Broken(io.BytesIO):
    """Chunks that are none, or whose client is gone."""

    def read(self, size: int | None = -1) -> bytes:
        raise OSError("invalid chunk size")


# The application closes connections, as after each request: not within a transaction.
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("source", "status"),
    [
        (io.BytesIO(json.dumps({"parcel": body()}).encode()), 200),
        (io.BytesIO(b" " * (MOST + 100)), 413),
        (io.BytesIO(), 400),
        (Broken(), 400),
    ],
    ids=["whole", "large", "empty", "broken"],
)
def test_the_application_answers(source: io.BytesIO, status: int) -> None:
    statuses: list[int] = []
    environ = {
        **RequestFactory().post("/api/v2/parcels").environ,
        "CONTENT_TYPE": "application/json",
        "HTTP_AUTHORIZATION": Shop(AccountFactory.create()).authorization,
        "HTTP_TRANSFER_ENCODING": "chunked",
        "wsgi.input": source,
        "wsgi.input_terminated": True,
    }
    environ.pop("CONTENT_LENGTH", None)

    def start(line: str, headers: Any, error: Any = None) -> Any:
        statuses.append(int(line.split(maxsplit=1)[0]))

    answer: Any = application(environ, start)
    with closing(answer) as parts:
        list(parts)
    assert statuses == [status]
