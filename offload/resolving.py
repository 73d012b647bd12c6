"""Asking this project's own RESOLVE function, from a view or from the event loop."""

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from asgiref.sync import sync_to_async
from django.core.asgi import get_asgi_application as django_asgi_application
from django.core.handlers.asgi import ASGIHandler
from django.db import connections
from django.http import HttpResponse
from django.utils.module_loading import import_string

from offload import conf, store
from offload.asgi import HoldMiddleware
from offload.protocol import NO_ANSWER, Answer, check_hold_id
from offload.store import to_answer

logger = logging.getLogger("offload")


class ResolveFunction(Protocol):
    """What OFFLOAD["RESOLVE"] names.

    Called with hold ids of any age, known or not. Returns the responses of those that are final;
    with `final_only=False` also what a late client gets for those that aren't. The keys are UUIDs
    in any form.
    """

    def __call__(
        self, hold_ids: list[str], *, final_only: bool = True
    ) -> Mapping[Any, HttpResponse]: ...


def resolve(hold_ids: list[str], *, final_only: bool = True) -> dict[str, Answer]:
    """Return what the app knows of these holds."""
    of_project: ResolveFunction = import_string(conf.current().resolve)
    answers = {}
    for key, response in of_project(hold_ids, final_only=final_only).items():
        try:
            hold_id = check_hold_id(key)
        except ValueError:
            logger.exception("RESOLVE gave an answer for no hold")
            continue
        try:
            answers[hold_id] = to_answer(response)
        except Exception:
            # The other holds of this request are not affected.
            logger.exception("RESOLVE gave no answer for hold %s", hold_id)
            answers[hold_id] = NO_ANSWER
    return answers


def resolve_one(hold_id: str, *, final_only: bool) -> Answer | None:
    """Return what the app knows of one hold; a RESOLVE that raises is logged, and knows nothing."""
    try:
        return resolve([hold_id], final_only=final_only).get(hold_id)
    except Exception:
        logger.exception("RESOLVE said nothing about hold %s", hold_id)
        return None


async def resolve_in_thread(hold_ids: list[str], *, final_only: bool) -> dict[str, Answer]:
    """Return what the app knows, for HoldMiddleware; a doubts.Resolve."""
    return await sync_to_async(_resolve_and_close, thread_sensitive=False)(hold_ids, final_only)


def _resolve_and_close(hold_ids: list[str], final_only: bool) -> dict[str, Answer]:
    try:
        return resolve(hold_ids, final_only=final_only)
    finally:
        # No request ends here, so Django doesn't close the thread's connections.
        connections.close_all()


def get_asgi_application() -> HoldMiddleware | ASGIHandler:
    """As Django's; under OFFLOAD["BACKEND"] = "asgi" with HoldMiddleware around it."""
    application = django_asgi_application()  # sets Django up first
    if conf.current().backend != "asgi":
        return application
    return HoldMiddleware(application, **hold_middleware_options())


def hold_middleware_options() -> dict[str, Any]:
    """Return HoldMiddleware's arguments from the project's settings, for its asgi.py."""
    settings = conf.current()
    return {
        "redis_url": store.url(),
        "resolve": resolve_in_thread,
        "max_concurrency": settings.max_concurrency,
        "max_holds": settings.max_holds,
        "max_holds_per_account": settings.max_holds_per_account,
        "drain_seconds": settings.drain_seconds,
    }
