"""Parcels: create, list, read."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpResponse
from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from parcels import limits
from parcels.filters import filter_parcels
from parcels.pagination import ParcelCursor
from parcels.query import identifier
from parcels.representation import parcel_payload
from parcels.selectors import parcel_of, parcels_of
from parcels.serializers import PARCEL_CHANGE, PARCEL_IN
from parcels.services.accept import Mode, Order, mode_of, parcel_row
from parcels.services.answering import answer_parcel, replay
from parcels.services.change import change_parcel
from parcels.services.create import create_parcels
from parcels.services.fill import Owned
from parcels.services.idempotency import find
from parcels.services.protect import retry_after
from parcels.statuses import Status, status_payload
from parcels.throttling.throttle import charge_parcels
from parcels.views.request import (
    account_of,
    asked,
    base_url,
    error_mode,
    idempotency_key,
    read_preferences,
    read_wait,
)


class ParcelsView(APIView):
    """`/parcels`"""

    def get(self, request: Request) -> Response:
        """List the account's parcels, newest first."""
        parcels = filter_parcels(parcels_of(account_of(request)), request.query_params)
        cursor = ParcelCursor()
        page = cursor.paginate_queryset(parcels, request, view=self)
        base, errors = base_url(request), error_mode(request.query_params)
        response = cursor.get_paginated_response(
            [parcel_payload(parcel, base, errors=errors) for parcel in page or []]
        )
        # A late answer about several parcels sends its client here to look again.
        seconds = retry_after(page or [])
        if seconds is not None:
            response["Retry-After"] = str(seconds)
        return response

    def post(self, request: Request) -> HttpResponse:
        """Create one parcel or several."""
        preferences = read_preferences(request.headers.get("Prefer", ""))
        key = idempotency_key(request)
        known = find(account_of(request), key) if key else None
        if known:
            return replay(
                asked=asked(request, wait=preferences.wait),
                row=known,
                respond_async=preferences.respond_async,
            )
        bodies, many = parcel_bodies(request.data)
        check_sizes(bodies, len(request.body))
        how = asked(request, many=many, wait=preferences.wait)
        orders, failed = read_orders(
            request,
            bodies,
            verbose=many and how.errors == "verbose",
            respond_async=preferences.respond_async,
        )
        charge_parcels(how.account, check_colli(orders, many))
        response = create_parcels(asked=how, orders=orders, failed=failed, key=key)
        if preferences.respond_async and any(order.mode is Mode.ASYNC for order in orders):
            response["Preference-Applied"] = "respond-async"
        return response

    def put(self, request: Request) -> HttpResponse:
        """Change a parcel that was not announced; with `request_label` announce it."""
        preferences = read_preferences(request.headers.get("Prefer", ""))
        parcel_id, body = change_body(request.data)
        check_sizes([body], len(request.body))
        fields = PARCEL_CHANGE.run_validation(body)
        mode = mode_of(fields, respond_async=preferences.respond_async)
        response = change_parcel(
            asked=asked(request, wait=preferences.wait),
            parcel_id=parcel_id,
            fields=fields,
            mode=mode,
        )
        if preferences.respond_async and mode is Mode.ASYNC:
            response["Preference-Applied"] = "respond-async"
        return response


class ParcelView(APIView):
    """`/parcels/{id}`"""

    def get(self, request: Request, parcel_id: str) -> HttpResponse:
        """Show a parcel; with `wait=N` not before its announcement ends or N seconds pass."""
        wait = read_wait(request.query_params.get("wait"))
        parcel = parcel_of(account_of(request), identifier(parcel_id))
        if parcel is None:
            raise NotFound("No Parcel matches the given query.")
        return answer_parcel(asked=asked(request, wait=wait or 0), parcel=parcel)


class StatusesView(APIView):
    """`/parcels/statuses`"""

    def get(self, request: Request) -> Response:
        """List every status that a parcel can have."""
        return Response(STATUSES)


STATUSES = [status_payload(status) for status in Status]


def parcel_bodies(data: Any) -> tuple[list[Any], bool]:
    """Return the parcels of a body and whether it was the form for several.

    Raises:
        ValidationError: it is neither form, empty, or too many.
    """
    if not isinstance(data, dict):
        raise ValidationError("The body must be a JSON object.")
    if "parcels" in data:
        bodies = data["parcels"]
        if not isinstance(bodies, list) or not bodies:
            raise ValidationError({"parcels": ["A list with at least one parcel is needed."]})
        if len(bodies) > limits.PARCELS:
            raise ValidationError({"parcels": [f"At most {limits.PARCELS} parcels at once."]})
        return bodies, True
    if "parcel" not in data:
        raise ValidationError({"parcel": ["This field is required."]})
    return [data["parcel"]], False


def check_sizes(bodies: list[Any], length: int) -> None:
    """Check how much there is to validate; `length` is the whole request's, in bytes.

    Raises:
        ValidationError: a parcel is too large, or there are too many items.
    """
    # A body that is no longer than a parcel may be has none that is.
    if length > limits.PARCEL and any(_size(body) > limits.PARCEL for body in bodies):
        raise ValidationError(f"At most {limits.PARCEL} bytes for one parcel.")
    items = [body.get("parcel_items") for body in bodies if isinstance(body, dict)]
    if sum(len(some) for some in items if isinstance(some, list)) > limits.ITEMS_IN_ALL:
        raise ValidationError(f"At most {limits.ITEMS_IN_ALL} items at once.")


def _size(body: Any) -> int:
    return len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())


def check_colli(orders: list[Order], many: bool) -> int:
    """Check how many parcels the orders make; return it.

    Raises:
        ValidationError: too many, or several to announce in the form for one.
    """
    colli = [order.fields.get("quantity") or 1 for order in orders]
    if sum(colli) > limits.PARCELS:
        raise ValidationError({"quantity": [f"At most {limits.PARCELS} parcels at once."]})
    if not many and colli[0] > 1 and orders[0].mode is not Mode.STORE:
        message = "Several colli are announced in the form {'parcels': [...]}."
        raise ValidationError({"quantity": [message]})
    return sum(colli)


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


def read_orders(
    request: Request, bodies: list[Any], *, verbose: bool, respond_async: bool
) -> tuple[list[Order], list[dict[str, Any]]]:
    """Validate each parcel; return the good ones, and with `verbose` the others with their errors.

    Raises:
        ValidationError: one is invalid, and the answer isn't verbose.
    """
    orders: list[Order] = []
    owned = Owned(account_of(request))
    failed: list[dict[str, Any]] = []
    for body in bodies:
        try:
            order = _order(body, respond_async)
            if verbose:  # sort it out before anything is stored
                parcel_row(order, owned)
            orders.append(order)
        except ValidationError as error:
            if not verbose:
                raise
            failed.append({"parcel": body, "errors": error.detail})
    if failed:
        JSONRenderer().render(failed)  # what can't be sent back fails before anything is stored
    return orders, failed


def _order(body: Any, respond_async: bool) -> Order:
    fields = PARCEL_IN.run_validation(body)
    return Order(fields, mode_of(fields, respond_async=respond_async))
