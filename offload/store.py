"""`release`, and the store on Django's side; its errors are logged, and only `read` raises."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import redis
from django.db import Error as DatabaseError
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.response import SimpleTemplateResponse

from offload import conf
from offload.keys import ANSWER_KEY, HOLD_CHANNEL, RELEASED_CHANNEL
from offload.postgresql import writing
from offload.protocol import BODILESS, NO_ANSWER, Answer, check_hold_id, encode_answer
from offload.redis_clients import PAUSE, address, reason, shared_client
from offload.responses import read_stream, render

if TYPE_CHECKING:
    from offload.testing import Eager

logger = logging.getLogger("offload")

# A response, also one that isn't rendered yet; a dictionary is JSON.
Released = HttpResponseBase | dict[str, Any]

TROUBLE = (redis.RedisError, OSError, DatabaseError)

# Stands in for us in tests: offload.testing.eager.
eager: Eager | None = None
_paused_until = 0.0  # not 0 since it was in trouble


def release(hold_id: UUID | str, response: Released) -> bool:
    """Answer the clients that are or will be held under this id; call it after the commit.

    The first release of a hold counts. Returns False when Redis was not told: release it again.
    A hub that can't reach Redis either asks the app (OFFLOAD["RESOLVE"]). Raises TypeError or
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
    if eager is not None:
        sent = eager.publish(answers)
    else:
        life = conf.current().answer_ttl
        values = [(ANSWER_KEY + key, encode_answer(each), life) for key, each in answers.items()]
        # For workers that wait for one hold: on the common channel each would get all messages.
        wake_ups = [(at, key) for key in answers for at in (RELEASED_CHANNEL, HOLD_CHANNEL + key)]
        sent = write(f"{len(answers)} releases are not sent", values, wake_ups)
    if failure is not None:
        raise failure
    return sent


def to_answer(response: Any, renderer: str = "") -> Answer:
    """Return the response's status, headers with its cookies, and body.

    A template or DRF response is rendered (the latter by the renderer that `renderer_of` named),
    a stream is read to its end, a dictionary becomes JSON; a 204 or 304 has no body.
    Raises TypeError for what is no response and ValueError for one over OFFLOAD["MAX_ANSWER"].
    """
    most = conf.current().max_answer
    if isinstance(response, dict):
        response = JsonResponse(response)
    elif isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
        render(response, renderer)
    if isinstance(response, StreamingHttpResponse):
        body = read_stream(response, most)
    elif isinstance(response, HttpResponse):
        body = response.content
    else:
        raise TypeError(f"an answer is a response or a dictionary, not {response!r}")
    if response.status_code in BODILESS:
        body = b""
    if len(body) > most:
        raise ValueError(
            f"an answer has {most} bytes at most (OFFLOAD['MAX_ANSWER']), not {len(body)}"
        )
    cookies = tuple(("Set-Cookie", morsel.OutputString()) for morsel in response.cookies.values())
    return Answer(response.status_code, (*response.items(), *cookies), body)


def forget(hold_ids: Collection[str]) -> bool:
    """Delete the answers of holds that nobody waits for; False when Redis could not be told.

    Without it they end by themselves, ANSWER_TTL seconds after their release.
    """
    if eager is not None:
        return eager.forget(hold_ids)
    keys = [ANSWER_KEY + check_hold_id(hold_id) for hold_id in hold_ids]
    return not keys or write(f"{len(keys)} answers are not deleted", deleted=keys)


def read(*keys: str) -> list[bytes | None]:
    """Return what is stored under the keys; raises one of TROUBLE."""
    if conf.current().in_database:
        return writing.read(keys)
    return cast("list[bytes | None]", shared_client(conf.current().redis_url).mget(keys))


def url() -> str:
    """Return the store's address, for processes and loops of their own."""
    if conf.current().in_database:
        return writing.url()
    return conf.current().redis_url


def write(
    trouble: str,
    values: Sequence[tuple[str, bytes, int]] = (),
    wake_ups: Sequence[tuple[str, str]] = (),
    deleted: Sequence[str] = (),
) -> bool:
    """Store (key, value, life), send (channel, payload) and delete keys, in one transaction.

    Of two values of a key the first counts. False if the store is in trouble.
    """
    global _paused_until
    if time.monotonic() < _paused_until:
        return False
    try:
        if conf.current().in_database:
            writing.write(values, wake_ups, deleted)
        else:
            pipeline = shared_client(conf.current().redis_url).pipeline(transaction=True)
            for key, value, life in values:
                pipeline.set(key, value, ex=life, nx=True)
            for channel, payload in wake_ups:
                pipeline.publish(channel, payload)
            if deleted:
                pipeline.delete(*deleted)
            pipeline.execute()
    except TROUBLE as error:
        _paused_until = time.monotonic() + PAUSE
        logger.warning("%s, %s is in trouble: %s", trouble, address(url()), reason(error))
        return False
    if _paused_until:
        _paused_until = 0.0
        logger.warning("%s answers again", address(url()))
    return True
