"""Is this process alive, and is it ready for traffic?"""

from __future__ import annotations

from django.db import OperationalError, connection
from django.http import HttpRequest, JsonResponse


def alive(request: HttpRequest) -> JsonResponse:
    """Answer 200 as long as the process answers at all."""
    return JsonResponse({"status": "ok"})


def ready(request: HttpRequest) -> JsonResponse:
    """Answer 200 when the database answers and has the tables, else 503.

    Redis is not asked: without it requests are slower, not wrong.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM parcels_account LIMIT 1")
    except OperationalError:
        return JsonResponse({"status": "database away"}, status=503)
    return JsonResponse({"status": "ok"})
