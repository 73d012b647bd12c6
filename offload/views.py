"""The internal URLs, for the hub and the front's script.

All others get a 404. OffloadMiddleware answers them, before any route, host check or redirect of
the project.
"""

import logging
import time

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest

from offload import conf, resolving, store
from offload.fronts import FRONTS
from offload.keys import ANSWER_KEY, INTERNAL_PATH, LATE_KEY, REQUEST_KEY
from offload.protocol import NOTHING_KNOWN, Answer, Hold, decode_answer, is_request_id, merge
from offload.questions import decode_question, encode_answers, question_is_signed
from offload.responses import to_response
from offload.tickets import TicketRefused, read_ticket

logger = logging.getLogger("offload")

# The script's next try in seconds; the published setup polled each second.
POLL_INTERVAL = "1"


def internal(request: HttpRequest) -> HttpResponse:
    """Answer below INTERNAL_PATH."""
    place, _, name = request.path_info.removeprefix(INTERNAL_PATH).partition("/")
    if place == "answers" and not name and request.method == "POST":
        return answers(request)
    # Only a front can close these two to clients; where there is none they don't exist.
    for_front = FRONTS[conf.current().backend].remote and request.method == "GET" and name
    if not for_front or place not in {"poll", "late"}:
        raise Http404
    return poll(name) if place == "poll" else late(name)


def answers(request: HttpRequest) -> HttpResponse:
    """Answer the hub's signed question for many holds: `{hold_id: answer}`."""
    authorization = request.headers.get("Authorization", "")
    settings = conf.current()
    if not question_is_signed(
        settings.secret,
        authorization,
        request.body,
        now=time.time(),
        fallbacks=settings.secret_fallbacks,
    ):
        raise Http404
    try:
        hold_ids, final_only = decode_question(request.body)
    except ValueError:
        return HttpResponseBadRequest()
    known = resolving.resolve(hold_ids, final_only=final_only)
    return HttpResponse(encode_answers(known), content_type="application/json")


def poll(ticket: str) -> HttpResponse:
    """Answer a front's polling script: the held client's answer, or 204 while it waits.

    The 204 carries Retry-After, which tells it from an answer that is itself a 204.
    """
    try:
        read = _read(ticket)
    except TicketRefused:
        raise Http404 from None
    return _answer(read, over=time.time() >= read.deadline)


def late(name: str) -> HttpResponse:
    """Answer at once for a client whose hub was lost: the final answer, or the late one.

    `name` is the ticket, or the front's own name for the request (keys.REQUEST_HEADER). 502
    when no hold is known by it: then it was not the hub that was lost but the app's answer.
    """
    try:
        read = _read(_ticket_of(name))
    except TicketRefused:
        return HttpResponse(status=502)
    return _answer(read, over=True)


def _read(text: str) -> Hold:
    settings = conf.current()
    # An expired ticket will do: a front gives a silent hub up after the longest wait there is, and
    # its script polls again after as long as the app was silent.
    return read_ticket(settings.secret, text, now=0, fallbacks=settings.secret_fallbacks)


def _ticket_of(name: str) -> str:
    if not is_request_id(name):
        return name
    try:
        (ticket,) = store.read(REQUEST_KEY + name)
    except store.TROUBLE:
        ticket = None
    return (ticket or b"").decode()


def _answer(ticket: Hold, *, over: bool) -> HttpResponse:
    """Return what was released; else the late answer if the wait is `over`, and 204 if not.

    The app is asked for what the store doesn't have. While a client waits only if it has lost the
    late answer, too, which is there from the start, or has a released one that can't be read: 200
    polls a second of one account, each with a database query, slow all clients.
    """
    try:
        kept = store.read(ANSWER_KEY + ticket.hold_id, LATE_KEY + ticket.nonce)
    except store.TROUBLE:
        kept = [None, None]
    released, late = (_decoded(each) for each in kept)
    if released is None and (over or late is None or kept[0] is not None):
        released = resolving.resolve_one(ticket.hold_id, final_only=True)
    if released is not None:
        return to_response(merge(released, late))
    if not over:
        return HttpResponse(status=204, headers={"Retry-After": POLL_INTERVAL})
    late = late or resolving.resolve_one(ticket.hold_id, final_only=False)
    return to_response(late or NOTHING_KNOWN)


def _decoded(kept: bytes | None) -> Answer | None:
    try:
        return decode_answer(kept) if kept else None
    except ValueError:
        logger.exception("a stored answer is unreadable")
        return None
