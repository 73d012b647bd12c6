"""Logs: JSON lines where a machine reads them, short lines where a person does.

Every line carries what was bound before: request id, account, announcement, task. Never a
name, an address or a secret: ids lead to those who may see them.
"""

import sys
from typing import Any

import structlog
from celery import current_task
from django.db import DatabaseError
from structlog.typing import EventDict, Processor, WrappedLogger

WITHHELD = "(text withheld)"
_add_extra = structlog.stdlib.ExtraAdder()


def without_row_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Keep the types of errors and drop their texts where one of them is the database's.

    PostgreSQL quotes the row in it, and the driver's error below or one raised from it repeats it.
    So do the words of Celery's and Django's lines, and what they add.
    """
    found = event.get("exc_info")
    exc_info = sys.exc_info() if found is True else found
    if isinstance(exc_info, tuple) and exc_info[1] is not None:
        copies: dict[int, tuple[BaseException, BaseException]] = {}
        bare = _without_text(exc_info[1], copies)
        if any(isinstance(error, DatabaseError) for error, _ in copies.values()):
            event["exc_info"] = (type(bare), bare, bare.__traceback__)
            for key in ("data", "message"):  # Celery's, and what another handler has written
                event.pop(key, None)
            said = [str(error) for error, _ in copies.values()]
            said += [repr(text)[1:-1] for text in said]  # as an error's own repr has it
            for text in sorted(filter(None, said), key=len, reverse=True):  # one may have another
                event["event"] = event["event"].replace(text, WITHHELD)
    return event


def _without_text(
    error: BaseException, copies: dict[int, tuple[BaseException, BaseException]]
) -> BaseException:
    """Copy an error and what its traceback shows with it; note each beside its copy."""
    if id(error) in copies:
        return copies[id(error)][1]
    kind = type(type(error).__name__, (Exception,), {"__module__": type(error).__module__})
    copy: BaseException = kind(WITHHELD)
    copies[id(error)] = error, copy  # before those below, which may lead back here
    if isinstance(error, BaseExceptionGroup):
        copy = BaseExceptionGroup(WITHHELD, [_without_text(e, copies) for e in error.exceptions])
        copies[id(error)] = error, copy
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        copy.__context__ = _without_text(before, copies)
    # The error's own: Celery logs billiard's copy of a traceback, which Python refuses.
    return copy.with_traceback(error.__traceback__)


def with_task(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Add the Celery task that runs in this thread, if one does, and its row."""
    if current_task:
        args = current_task.request.args
        event.setdefault("task", current_task.name)
        event.setdefault("row", args[0] if args else None)
    return event


def with_extra(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """Add what the call gives, but never Django's request: its query has names and addresses."""
    bound = event.get("request")
    event = _add_extra(logger, name, event)
    if not isinstance(event.get("request", ""), str):
        del event["request"]
        if bound is not None:
            event["request"] = bound
    return event


def without_refusals(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Drop the traceback of a request that Django refuses: it is the client's error, not ours."""
    if event["logger"].startswith("django.security."):
        event.pop("exc_info", None)
    return event


_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    with_task,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    without_refusals,
    with_extra,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    without_row_values,
]


def wants_json(form: str, *, demo: bool) -> bool:
    """Decide for "auto": JSON unless a person looks on."""
    if form == "auto":
        return not demo and not sys.stderr.isatty()
    return form == "json"


def configuration(*, level: str, json: bool) -> dict[str, Any]:
    """Return Django's LOGGING; standard-library loggers and structlog's write the same lines."""
    renderer: list[Processor] = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if json
        # Plain: the renderer's own tracebacks show local variables, and they hold addresses.
        else [
            structlog.dev.ConsoleRenderer(
                colors=False, exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": "structlog.stdlib.ProcessorFormatter",
                "foreign_pre_chain": _SHARED,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *renderer,
                ],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
        # What Django sends to the console and by mail by itself would come twice.
        "loggers": {"django": {"handlers": [], "level": level, "propagate": True}},
    }
