"""Log lines: JSON with what was bound; no text of the database's errors."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import pytest
import structlog
from celery import shared_task
from django.db import DataError, IntegrityError
from django.test import Client, RequestFactory

from shipping.logs import configuration, wants_json


@pytest.fixture
def lines() -> Iterator[Any]:
    """Attach what LOGGING would, without taking pytest's own handlers away."""
    formatter = configuration(level="INFO", json=True)["formatters"]["line"]
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=formatter["processors"], foreign_pre_chain=formatter["foreign_pre_chain"]
        )
    )
    logging.getLogger().addHandler(handler)
    structlog.contextvars.clear_contextvars()
    yield lambda: [json.loads(line) for line in handler.stream.getvalue().splitlines()]
    structlog.contextvars.clear_contextvars()
    logging.getLogger().removeHandler(handler)


def test_a_line_is_json_with_what_was_bound(lines: Any) -> None:
    structlog.contextvars.bind_contextvars(request="r1", parcel=7)
    logging.getLogger("parcels.services.x").warning("no %s", "label", extra={"carrier": "postnl"})
    (line,) = lines()
    assert line["event"] == "no label"
    assert line["level"] == "warning"
    assert line["logger"] == "parcels.services.x"
    assert (line["request"], line["parcel"], line["carrier"]) == ("r1", 7, "postnl")
    assert line["timestamp"].endswith("Z")


def test_an_error_s_line_keeps_the_request_s_id_and_has_no_query(
    lines: Any, client: Client
) -> None:
    """Django gives the request itself under the same name."""
    client.get("/api/v2/nothing?name=Jane", headers={"X-Request-ID": "mine"})
    (line,) = lines()
    assert (line["logger"], line["status_code"]) == ("django.request", 404)
    assert line["request"] == "mine"
    assert "Jane" not in json.dumps(line)


def test_a_request_that_django_refuses_is_one_line(lines: Any, client: Client) -> None:
    """Scanners send other hosts all day: a traceback for each one hid those of faults."""
    client.get("/api/v2/parcels", headers={"host": "elsewhere.example"})
    (line,) = lines()
    assert line["logger"] == "django.security.DisallowedHost"
    assert "ALLOWED_HOSTS" in line["event"]
    assert "exception" not in line


def test_without_an_id_the_request_is_left_out(lines: Any, rf: RequestFactory) -> None:
    extra = {"request": rf.get("/?name=Jane"), "status_code": 400}
    logging.getLogger("django.request").warning("Bad Request", extra=extra)
    (line,) = lines()
    assert "request" not in line
    assert line["status_code"] == 400


def test_a_task_s_line_has_it_and_its_row(lines: Any) -> None:
    @shared_task
    def some(row: int) -> None:
        logging.getLogger("x").warning("within")

    some.apply((7,))
    logging.getLogger("x").warning("after")
    within, after = (line for line in lines() if line["logger"] == "x")
    assert (within["task"], within["row"]) == (some.name, 7)
    assert not {"task", "row"} & after.keys()


@pytest.mark.parametrize("kind", [IntegrityError, DataError])
def test_the_text_of_a_database_error_is_withheld(lines: Any, kind: type[Exception]) -> None:
    text = "refused\nDETAIL: Key (name)=(Jane Doe) already exists"
    try:
        try:
            raise ValueError(text)
        except ValueError as cause:
            raise kind(text) from cause
    except kind as error:
        logging.getLogger("x").exception("failed (%s)", error)  # as Django's on_commit does
    (line,) = lines()
    assert "Jane" not in json.dumps(line)
    assert kind.__name__ in line["exception"]
    assert "test_logs.py" in line["exception"]


QUOTED = "DETAIL: Key (name)=(Jane Doe) already exists"


def handling(text: str) -> None:
    try:
        raise DataError(text)
    except DataError:
        raise ValueError(text[:6])  # noqa: B904 # as a mistake in a handler is


def grouped(text: str) -> None:
    group = ExceptionGroup(text, [ValueError("other"), DataError(text)])
    group.exceptions[0].__cause__ = group  # a circle ends
    raise group


@pytest.mark.parametrize(
    ("fail", "kinds"),
    [(handling, {"ValueError", "DataError"}), (grouped, {"ExceptionGroup", "DataError"})],
)
def test_the_text_of_a_database_error_below_another_is_withheld(
    lines: Any, fail: Callable[[str], None], kinds: set[str]
) -> None:
    try:
        fail(QUOTED)
    except Exception:
        logging.getLogger("x").exception("failed (%s)", QUOTED)
    (line,) = lines()
    assert "Jane" not in json.dumps(line)
    assert {kind for kind in kinds if f"{kind}: (text withheld)" not in line["exception"]} == set()


class Copied:
    """As billiard's: a traceback by its attributes alone."""

    def __init__(self, traceback: TracebackType | None) -> None:
        assert traceback is not None
        self.tb_frame, self.tb_lineno = traceback.tb_frame, traceback.tb_lineno
        self.tb_lasti, self.tb_next = traceback.tb_lasti, None


def test_a_database_error_of_a_task_is_a_line_too(lines: Any) -> None:
    """Celery logs a copy of the traceback, which `with_traceback` refuses."""
    try:
        raise DataError("Jane Doe")
    except DataError as error:
        exc_info = (DataError, error, Copied(error.__traceback__))
    logging.getLogger("celery.app.trace").error("failed", exc_info=exc_info)  # type: ignore[arg-type]
    (line,) = lines()
    assert "DataError: (text withheld)" in line["exception"]
    assert "test_logs.py" in line["exception"]


def test_nor_is_it_in_the_words_of_a_task_s_line(lines: Any) -> None:
    """Celery says it there, escaped, and in what it adds."""

    @shared_task
    def refused(row: int) -> None:
        raise DataError(f"refused\n{QUOTED}") from LookupError()

    refused.apply((7,))
    (line,) = lines()
    assert "Jane" not in json.dumps(line)
    assert "raised unexpected: DataError('(text withheld)')" in line["event"]


def test_other_errors_keep_their_text(lines: Any) -> None:
    """The control: the same words by another error do appear."""
    try:
        raise ValueError("Jane Doe")
    except ValueError:
        logging.getLogger("x").exception("failed")
    assert "Jane Doe" in lines()[0]["exception"]


@pytest.mark.parametrize(
    ("form", "demo", "json_"),
    [("json", True, True), ("line", False, False), ("auto", True, False), ("auto", False, True)],
)
def test_a_person_gets_short_lines(form: str, demo: bool, json_: bool) -> None:
    assert wants_json(form, demo=demo) is json_
