"""Shops' cursor pages: `next` and `previous` beside the parcels. Operators' pages: the newest."""

from typing import Any, cast

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.utils.functional import cached_property
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

from parcels.query import is_id

# Rows that operators' lists have: to count all takes a second for some millions. Two hundred pages:
# nobody turns so many, a filter finds the others.
NEWEST = 10_000


class ParcelCursor(CursorPagination):
    """Newest first. A page costs the same at the beginning and after a million parcels."""

    ordering = "-id"
    page_size = 100
    # The dialect answers a bad cursor with 404, which is what the library raises.
    invalid_cursor_message = "Invalid cursor"

    def decode_cursor(self, request: Request) -> Cursor | None:
        """Refuse values that the library reads as "from the start" or passes to the database."""
        encoded = request.query_params.get(self.cursor_query_param)
        cursor = super().decode_cursor(request)
        if not encoded or cursor is None:
            return cursor
        position = cursor.position
        if position is None and not cursor.reverse:
            raise NotFound(self.invalid_cursor_message)
        # The stubs say int; what arrives is the client's text.
        if position is not None and not is_id(str(position)):
            raise NotFound(self.invalid_cursor_message)
        return cursor

    def get_paginated_response(self, data: Any) -> Response:
        return Response(
            {"next": self.get_next_link(), "previous": self.get_previous_link(), "parcels": data}
        )


class Newest(Paginator):
    """Pages of the first rows of a table that may be too long to be counted."""

    @cached_property
    def count(self) -> int:
        return cast(QuerySet[Any], self.object_list).order_by()[:NEWEST].count()
