"""offload.asgi.HoldMiddleware holds in this process; the late answer is the body it sees."""

from __future__ import annotations

from django.http import HttpResponse

from offload.protocol import TICKET_HEADER

HOLDS = True
REMOTE = False


def hand_over(late: HttpResponse, ticket: str) -> HttpResponse:
    late[TICKET_HEADER] = ticket
    return late
