"""Is this process alive, and is it ready for traffic?"""

import threading
from time import monotonic

from django.db import Error, connection
from django.http import HttpRequest, JsonResponse

# Seconds for which the database's answer is reused: load balancers ask every few seconds, and no
# client may cause more than a query a second in each process. It stands for as
# long again while one thread asks anew: at a silent database that thread hangs.
KEEP = 1.0


def alive(request: HttpRequest) -> JsonResponse:
    """Answer 200 as long as the process answers at all."""
    return JsonResponse({"status": "ok"})


def ready(request: HttpRequest) -> JsonResponse:
    """Answer 200 when the database answers and has the tables, else 503.

    Redis is not asked: without it requests are slower, not wrong.
    """
    if DATABASE.answers():
        return JsonResponse({"status": "ok"})
    return JsonResponse({"status": "database away"}, status=503)


class Database:
    """What the database answered last. One thread asks; for KEEP the others take what was."""

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._answered = False
        self._good_until = 0.0

    def answers(self) -> bool:
        """Tell whether it answers and has the tables."""
        now = monotonic()
        if now >= self._good_until and self._asking.acquire(blocking=False):
            try:
                self._good_until = now + KEEP
                self._answered = _has_tables()
                self._good_until = monotonic() + KEEP
            finally:
                self._asking.release()
        return self._answered and now < self._good_until


def _has_tables() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM parcels_account LIMIT 1")
    except Error:  # on PostgreSQL a missing table is no OperationalError
        return False
    return True


DATABASE = Database()
