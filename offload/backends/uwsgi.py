"""uWSGI collects the ticket's header and its offload thread goes on to the hub."""

from __future__ import annotations

from django.http import HttpResponse

from offload.backends import bare
from offload.protocol import TICKET_HEADER

HOLDS = REMOTE = True


def hand_over(late: HttpResponse, ticket: str) -> HttpResponse:
    return bare(late.status_code, TICKET_HEADER, ticket)
