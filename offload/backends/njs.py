"""nginx intercepts status 418 and its script asks the hub: `error_page 418 = @njs`."""

from __future__ import annotations

from django.http import HttpResponse

from offload.backends import bare
from offload.protocol import TICKET_HEADER

HOLDS = REMOTE = True


def hand_over(late: HttpResponse, ticket: str) -> HttpResponse:
    # 418: no view of anyone's answers it, so nginx intercepts nothing else.
    return bare(418, TICKET_HEADER, ticket)
