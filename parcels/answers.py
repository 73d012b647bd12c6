"""Write an answer: the same question gives the same bytes, in a web worker or in Celery.

The process that records the outcome writes a held client's answer. It must be the same as that of a
slow synchronous view, so both come from `final_answer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from django.http import HttpResponse
from rest_framework.renderers import JSONRenderer

from parcels.models import Parcel
from parcels.representation import parcel_payload
from parcels.statuses import Status


@dataclass(frozen=True, slots=True)
class Question:
    """The part of a request on which the answer's form depends; plain values, for a JSON column."""

    parcels: list[int]
    base: str  # what absolute URLs begin with
    path: str  # of the request, for error bodies
    many: bool = False  # asked as {"parcels": […]}
    errors: Literal["", "verbose", "verbose-carrier"] = ""
    preferred: str = ""  # what Preference-Applied says on a late answer
    # Of a batch with errors=verbose: the invalid ones, as sent, with their errors.
    failed: list[dict[str, Any]] = field(default_factory=list)

    @property
    def creates(self) -> bool:
        """Tell a POST or PUT of parcels from a GET of one."""
        return self.path.rstrip("/").endswith("/parcels")


def json_response(payload: object, status: int = 200) -> HttpResponse:
    """Return JSON exactly as the API's renderer writes it."""
    return HttpResponse(
        JSONRenderer().render(payload), status=status, content_type="application/json"
    )


def final_answer(question: Question, parcels: Sequence[Parcel]) -> HttpResponse:
    """Answer with the parcels as they are, in the order of the question."""
    refused: list[Parcel] = []
    if question.errors == "verbose-carrier":
        refused = [parcel for parcel in parcels if parcel.status == Status.ANNOUNCEMENT_FAILED]
    if not question.many and refused and question.creates:
        message = f"non_field_errors: '{parcels[0].carrier_error}'"
        path = question.path.lstrip("/")
        return json_response({"error": {"code": 400, "request": path, "message": message}}, 400)
    if not question.many:
        shown = parcel_payload(parcels[0], question.base, errors=question.errors)
        return json_response({"parcel": shown})
    payload: dict[str, Any] = {
        "parcels": [
            parcel_payload(parcel, question.base, errors=question.errors)
            for parcel in parcels
            if parcel not in refused
        ]
    }
    if question.errors:
        payload["failed_parcels"] = question.failed + [
            _failed(parcel, question) for parcel in refused
        ]
    return json_response(payload)


def unfinished_answer(
    question: Question, parcels: Sequence[Parcel], retry_after: int | None
) -> HttpResponse:
    """Answer with the parcels as they are; with `Retry-After` (seconds) while one is announced."""
    response = final_answer(question, parcels)
    if retry_after is not None:
        response["Retry-After"] = str(retry_after)
    return response


def late_answer(
    question: Question, parcels: Sequence[Parcel], retry_after: int | None
) -> HttpResponse:
    """Answer after a wait without outcome: 202 to a POST or PUT, the current state to a GET."""
    response = unfinished_answer(question, parcels, retry_after)
    if not question.creates:
        return response
    response.status_code = 202
    response["Location"] = _location(question)
    if question.preferred:
        response["Preference-Applied"] = question.preferred
    return response


def _failed(parcel: Parcel, question: Question) -> dict[str, Any]:
    return {
        "parcel": parcel_payload(parcel, question.base, errors=question.errors),
        "errors": {"non_field_errors": [parcel.carrier_error]},
    }


def _location(question: Question) -> str:
    if len(question.parcels) == 1:
        return f"{question.base}/api/v2/parcels/{question.parcels[0]}"
    ids = ",".join(str(parcel_id) for parcel_id in question.parcels)
    return f"{question.base}/api/v2/parcels?ids={ids}"
