"""`hold` and `release`, and `wait` for workers that wait themselves."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse

from offload import backends, conf, store
from offload.async_wait import wait_in_loop
from offload.conversion import to_answer, to_response
from offload.protocol import check_hold_id
from offload.worker_wait import wait_for


@dataclass(frozen=True)
class Hold:
    """The mark that `hold` leaves on a response; `deadline` in seconds since the epoch."""

    hold_id: str
    account: str
    deadline: float


def holds_clients() -> bool:
    """Say whether a front holds clients here; if not, the view waits itself and can't `hold`."""
    return backends.current().HOLDS


def hold(
    hold_id: str, *, late: HttpResponse, wait: float | None = None, account: str = ""
) -> HttpResponse:
    """Have the front hold this client until `release(hold_id, …)`; return this from the view.

    `late` is what the client gets when `wait` seconds (OFFLOAD["DEADLINE"] at most, and by
    default) have passed: usually a 202 with Location, Retry-After and a body. `account` is whom
    OFFLOAD["MAX_HOLDS_PER_ACCOUNT"] counts. Raises ValueError for a hold id that is not a
    `uuid4().hex` and ImproperlyConfigured where `holds_clients()` is False.
    """
    settings = conf.current()
    if not backends.current().HOLDS:
        raise ImproperlyConfigured(
            f"nothing holds clients under OFFLOAD['BACKEND'] = {settings.backend!r}: "
            "ask offload.holds_clients() first, and wait in the view"
        )
    check_hold_id(hold_id)
    if late.status_code == 202:
        late.status_code = settings.deadline_status
    seconds = settings.deadline if wait is None else min(wait, settings.deadline)
    if seconds > 0:
        late.offload_hold = Hold(hold_id, account, time.time() + seconds)  # type: ignore[attr-defined] # our mark, for OffloadMiddleware
    return late


def release(hold_id: str, response: HttpResponse) -> bool:
    """Answer whoever is or will be held under this id; call it after the commit.

    Returns False when Redis could not be told. Nothing is lost then: who waits asks the app
    (OFFLOAD["RESOLVE"]) within two seconds.
    """
    return release_many({hold_id: response})


def release_many(responses: Mapping[str, HttpResponse]) -> bool:
    """Release many holds in one transaction; as `release`."""
    if not responses:
        return True
    answers = {check_hold_id(key): to_answer(response) for key, response in responses.items()}
    return store.publish(answers)


def forget(hold_ids: Collection[str]) -> bool:
    """Delete the answers of holds that nobody waits for; False when Redis could not be told.

    Without it they end by themselves, ANSWER_TTL seconds after their release.
    """
    return not hold_ids or store.delete(check_hold_id(hold_id) for hold_id in hold_ids)


async def wait_async(hold_id: str, seconds: float) -> HttpResponse | None:
    """As `wait`, for an async view: it takes a coroutine, and no thread."""
    answer = await wait_in_loop(check_hold_id(hold_id), seconds)
    return None if answer is None else to_response(answer)


def wait(hold_id: str, seconds: float) -> HttpResponse | None:
    """Wait in this worker until the hold is released; None when `seconds` have passed.

    For the deployments that hold no clients. Give the database connection back before.
    """
    answer = wait_for(check_hold_id(hold_id), seconds)
    return None if answer is None else to_response(answer)
