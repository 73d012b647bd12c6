"""`hold` and `release`, and `wait` for workers that wait themselves."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase

from offload import conf, fronts, store
from offload.answer import NO_ANSWER
from offload.async_wait import wait_in_loop
from offload.protocol import check_hold_id
from offload.responses import to_answer, to_response
from offload.worker_wait import wait_for

# A response, also one that isn't rendered yet; a dictionary is JSON.
Released = HttpResponseBase | dict[str, Any]


@dataclass(frozen=True)
class Hold:
    """The mark that `hold` leaves on a response; `deadline` in seconds since the epoch."""

    hold_id: str
    account: str
    deadline: float


def holds_clients() -> bool:
    """Say whether a front holds clients here; if not, the worker waits for what is held."""
    return fronts.current().holds


def hold(
    hold_id: UUID | str, *, late: HttpResponse, wait: float | None = None, account: object = ""
) -> HttpResponse:
    """Have this client wait until `release(hold_id, …)`; return this from the view.

    `late` is what the client gets when `wait` seconds (OFFLOAD["DEADLINE"] at most, and by
    default) have passed: usually a 202 with Location, Retry-After and a body. `account` is any key
    of the account that OFFLOAD["MAX_HOLDS_PER_ACCOUNT"] counts. Where nothing holds clients
    (`inline`, runserver, the test client) the worker waits, after the view and its transaction.
    Raises ValueError for a hold id that is not a UUID.
    """
    settings = conf.current()
    if not isinstance(late, HttpResponse):
        raise TypeError(f"the late answer is a response with an end, not {late!r}")
    hold_id = check_hold_id(hold_id)
    if late.status_code == 202:
        late.status_code = settings.deadline_status
    seconds = settings.deadline if wait is None else min(wait, settings.deadline)
    if seconds > 0:
        late.offload_hold = Hold(hold_id, str(account), time.time() + seconds)  # type: ignore[attr-defined] # our mark, for OffloadMiddleware
    return late


def release(hold_id: UUID | str, response: Released) -> bool:
    """Answer the clients that are or will be held under this id; call it after the commit.

    The first release of a hold counts. Returns False when Redis could not be told. Nothing is lost
    then: the hub asks the app (OFFLOAD["RESOLVE"]) within two seconds. Raises TypeError or
    ValueError for a response that can't be stored; its clients have a 500 then.
    """
    return release_many({hold_id: response})


def release_many(responses: Mapping[Any, Released]) -> bool:
    """Release many holds in one transaction; as `release`."""
    if not responses:
        return True
    answers, failure = {}, None
    for key, response in responses.items():
        hold_id = check_hold_id(key)
        try:
            answers[hold_id] = to_answer(response)
        except Exception as error:  # a renderer's own, too
            answers[hold_id] = NO_ANSWER
            failure = failure or error
    sent = store.publish(answers)
    if failure is not None:
        raise failure
    return sent


def forget(hold_ids: Collection[str]) -> bool:
    """Delete the answers of holds that nobody waits for; False when Redis could not be told.

    Without it they end by themselves, ANSWER_TTL seconds after their release.
    """
    return not hold_ids or store.delete(check_hold_id(hold_id) for hold_id in hold_ids)


async def wait_async(hold_id: UUID | str, seconds: float) -> HttpResponse | None:
    """As `wait`, for an async view: it takes a coroutine, and no thread."""
    answer = await wait_in_loop(check_hold_id(hold_id), seconds)
    return None if answer is None else to_response(answer)


def wait(hold_id: UUID | str, seconds: float) -> HttpResponse | None:
    """Wait in this worker until the hold is released; None when `seconds` have passed.

    For the deployments that hold no clients. Give the database connection back before.
    """
    answer = wait_for(check_hold_id(hold_id), seconds)
    return None if answer is None else to_response(answer)
