"""Parcels: list, read, change. How they are made is in `parcels.views.create`."""

import json
from typing import Any

from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from parcels import limits
from parcels.filters import filter_parcels
from parcels.json_values import check_sizes
from parcels.pagination import ParcelCursor
from parcels.query import identifier, small_integer
from parcels.representation import parcel_payload
from parcels.selectors import parcels_of
from parcels.serializers import PARCEL_CHANGE
from parcels.services.accept import order_of
from parcels.services.answering import answer_parcel
from parcels.services.cancel import cancel
from parcels.services.change import change_parcel
from parcels.services.protect import retry_after
from parcels.statuses import Status, status_payload
from parcels.views.create import CreateView
from parcels.views.request import account_of, asked, count


class ParcelsView(CreateView):
    """`/parcels`; its POST is `CreateView`'s."""

    def get(self, request: Request) -> Response:
        """List the account's parcels, newest first."""
        how = asked(request)
        parcels = filter_parcels(parcels_of(how.account), request.query_params)
        cursor = ParcelCursor()
        page = cursor.paginate_queryset(parcels, request, view=self)
        # The library takes the request's host, which behind a proxy may be another.
        cursor.base_url = how.question.base + request.get_full_path()
        response = cursor.get_paginated_response(
            [
                parcel_payload(parcel, how.question.base, errors=how.question.errors)
                for parcel in page or []
            ]
        )
        # A late answer about several parcels sends its client here to look again.
        seconds = retry_after(page or [])
        if seconds is not None:
            response["Retry-After"] = str(seconds)
        return response

    def put(self, request: Request) -> HttpResponse:
        """Change a parcel that was not announced; with `request_label` announce it."""
        parcel_id, body = change_body(request.data)
        check_sizes([body], len(request.body))
        how = asked(request)
        fields = PARCEL_CHANGE.run_validation(body)
        mode = order_of(fields).mode
        return change_parcel(asked=how, parcel_id=parcel_id, fields=fields, mode=mode)


class ParcelView(APIView):
    """`/parcels/{id}`"""

    def get(self, request: Request, parcel_id: str) -> HttpResponse:
        """Show a parcel; with `wait=N` not before its announcement ends or N seconds pass."""
        wait = small_integer(request.query_params, "wait")
        parcel = get_object_or_404(parcels_of(account_of(request)), pk=identifier(parcel_id))
        waits = wait and parcel.status == Status.BEING_ANNOUNCED
        # The answer is kept in Redis for minutes: a thousand of 100 KB in each would fill it.
        if waits and (more := len(json.dumps(parcel.parcel_items)) // limits.GOODS):
            count(account_of(request), "read", charge=more)
        return answer_parcel(asked=asked(request, wait=wait or 0), parcel=parcel)


class CancelView(APIView):
    """`/parcels/{id}/cancel`"""

    def post(self, request: Request, parcel_id: str) -> Response:
        """Cancel the parcel, or queue that its carrier is asked; a body is not read."""
        verdict = cancel(account=account_of(request), parcel_id=identifier(parcel_id))
        return Response({"status": verdict.status, "message": verdict.message}, verdict.code)


class StatusesView(APIView):
    """`/parcels/statuses`"""

    def get(self, request: Request) -> Response:
        """List every status that a parcel can have."""
        return Response(STATUSES)


STATUSES = [status_payload(status) for status in Status]


def change_body(data: Any) -> tuple[int, dict[str, Any]]:
    """Return the parcel's id and the rest of the body.

    Raises:
        ValidationError: it is no object with a parcel that has an id.
        NotFound: no parcel can have this id.
    """
    body = data.get("parcel") if isinstance(data, dict) else None
    if not isinstance(body, dict):
        raise ValidationError({"parcel": ["An object with the parcel's id is needed."]})
    parcel_id = body.get("id")
    if isinstance(parcel_id, bool) or not isinstance(parcel_id, int | str) or parcel_id == "":
        raise ValidationError({"id": ["The parcel's id is needed."]})
    return identifier(str(parcel_id)), body
