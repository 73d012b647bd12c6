"""Work that a client waits for: done in another process, committed, then released.

The name is the one under which Celery looks for tasks in installed apps.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from copy import deepcopy
from functools import partial, update_wrapper
from importlib.util import find_spec
from inspect import iscoroutinefunction
from typing import Any, Generic, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections, router, transaction
from django.db.models import Field
from django.db.models.fields.files import FieldFile
from django.http import HttpResponse
from django.utils.module_loading import import_string

from offload import conf, store
from offload.awaited import Awaited, HoldState
from offload.inline import give_connections_back
from offload.middleware import hold
from offload.responses import renderer_of
from offload.store import release

logger = logging.getLogger("offload")
# A release that Redis does not take is repeated, each second, as is a connection to the database:
# the client waits for it, and most restarts are over by then.
RELEASES, AGAIN = 15, 1.0

Row = TypeVar("Row", bound=Awaited)


class Task(Generic[Row]):
    """A function of one row; call it in your own tests, `offload.run` it in views."""

    def __init__(self, model: type[Row], function: Callable[[Row], object]) -> None:
        if iscoroutinefunction(function):
            raise TypeError("a task is a function: nothing would await this coroutine")
        self.model = model
        self.path = f"{function.__module__}.{function.__qualname__}"
        self._function = function
        update_wrapper(self, function)

    def __call__(self, row: Row) -> object:
        return self._function(row)

    def is_found(self) -> bool:
        """Say whether `execute` finds it: not in a function or class, and by its own name."""
        try:
            return import_string(self.path) is self
        except ImportError:
            return False

    def enqueue(self, row: Row) -> None:
        """Have it done by what OFFLOAD["TASKS"] names."""
        RUNNERS[conf.current().tasks](self.path, str(row.pk), str(row.hold_id))

    def work(self, pk: str, hold_id: str) -> None:
        """Do it, commit what it has changed, and release the outcome; a failure is a 500.

        A queue may deliver twice: a row whose work has ended is only released again, one that is
        worked on is left alone. A row with a newer wait is left to that one.
        """
        alias = router.db_for_write(self.model)  # a replica may not have the row yet
        _reach(alias)
        rows = self.model.hold_rows(alias).filter(hold_id=hold_id)
        begun = rows.filter(hold_state=HoldState.WAITING).update(hold_state=HoldState.WORKING)
        row = self.model._base_manager.using(alias).filter(hold_id=hold_id).first()
        if row is None:
            logger.warning("%s: nobody waits for %s any more", self.path, pk)
            return
        if row.hold_state == HoldState.WORKING and not begun:
            logger.warning("%s: another worker has begun on %s", self.path, pk)
            return
        failure: BaseException | None = None
        changed: list[str] = []
        if begun:
            before = _values(row)
            give_connections_back()  # the work may take long, and need none
            try:
                self._function(row)
                row.hold_state = HoldState.DONE
                # Only what the work has changed: others may have written meanwhile.
                changed = [
                    field.attname
                    for field, value in _values(row).items()
                    if _differ(before[field], value) or getattr(field, "auto_now", False)
                ]
            except BaseException as error:  # a SystemExit, or gevent's time-out, too
                failure = error
                row.hold_state = HoldState.FAILED
                changed = ["hold_state"]
            give_connections_back()  # the server may have cut one that the work has used
        sent = False
        try:
            _reach(alias)  # only this process knows what it has bought
            with transaction.atomic(using=alias):
                row.save(update_fields=changed)  # of nothing it is nothing
                # PostgreSQL tells of the release at the commit; Redis would before.
                if conf.current().in_database and conf.current().database == alias:
                    answer, wrong = _answer(row, within=True)
                    failure, sent = wrong or failure, release(hold_id, answer)
        except Exception as error:
            failure, sent = error, False
            row.hold_state = HoldState.FAILED
            with suppress(DatabaseError):
                # Not where only the commit's answer was lost.
                rows.filter(hold_state=HoldState.WORKING).update(hold_state=HoldState.FAILED)
        if not sent:
            answer, wrong = _answer(row, within=False)
            failure = wrong or failure
            for _ in range(RELEASES):
                if release(hold_id, answer):
                    break
                time.sleep(AGAIN)
        if failure is not None:
            raise failure


def task(model: type[Row]) -> Callable[[Callable[[Row], object]], Task[Row]]:
    """Make the decorated function of one row a task: `@offload.task(Order)`."""
    if not (isinstance(model, type) and issubclass(model, Awaited)):
        raise TypeError(f"@offload.task(Order) takes an offload.Awaited model, not {model!r}")
    return partial(Task, model)


def run(
    work: Task[Row],
    row: Row,
    *,
    wait: float | None = None,
    late: HttpResponse | None = None,
    account: object = "",
    request: Any = None,
) -> HttpResponse:
    """Start the work after the commit, and hold the client until its outcome; return this.

    `wait` and `account` as for `hold`; `late` is the row's own by default. With DRF's `request` the
    outcome is rendered as that client asked for. A row that is being worked on is only waited for.
    """
    if not (isinstance(work, Task) and isinstance(row, work.model)) or row._state.adding:
        raise TypeError(
            "offload.run takes a function under @offload.task(Order) and a saved Order, not "
            f"{work!r} and {row!r}"
        )
    if not work.is_found():
        raise TypeError(f"a worker finds a task by its name in a module, and {work.path} is none")
    alias = router.db_for_write(type(row), instance=row)
    if alias != router.db_for_write(work.model):
        raise ValueError(f"{row!r} is in {alias!r}, where no router sends the worker")
    settings = conf.current()
    seconds = settings.deadline if wait is None else min(wait, settings.deadline)
    if row.begin_hold(seconds, renderer_of(request)):
        if store.eager is not None:
            store.eager.work(work, row)
        else:
            transaction.on_commit(partial(_start, work, row), using=alias)
    return hold(str(row.hold_id), late=late or row.late(), wait=seconds, account=account)


def execute(path: str, pk: str, hold_id: str) -> None:
    """Work on the row; what the queues call, by names alone."""
    work: Task[Any] = import_string(path)
    work.work(pk, hold_id)


def _start(work: Task[Any], row: Awaited) -> None:
    try:
        work.enqueue(row)
    except Exception:
        # Otherwise the next request would join a wait for work that is never done.
        alias = router.db_for_write(type(row), instance=row)
        # An answer of the broker's may be lost, and the work begun.
        unbegun = row.hold_rows(alias).filter(hold_id=row.hold_id, hold_state=HoldState.WAITING)
        if unbegun.update(hold_state=HoldState.FAILED):
            release(str(row.hold_id), row.failure())  # others may have joined this wait
        raise


def _reach(alias: str) -> None:
    connection, end = connections[alias], time.monotonic() + RELEASES * AGAIN
    while True:
        try:
            connection.ensure_connection()
            # A pool gives, unasked, what a restart has cut. In a TestCase it is the test's own.
            if connection.in_atomic_block or connection.is_usable() or time.monotonic() > end:
                return
            connection.close()
            time.sleep(AGAIN / 50)  # each of the pool's may be so
        except DatabaseError:
            if time.monotonic() > end:
                raise
            time.sleep(AGAIN)


def _answer(row: Awaited, *, within: bool) -> tuple[HttpResponse, Exception | None]:
    """Return the row's answer, or a 500 if none can be made, with what then was wrong.

    `within` the work's own transaction, or after it.
    """
    try:
        # What the database refuses there must not undo the work.
        with transaction.atomic(using=row._state.db) if within else nullcontext():
            return row.hold_answer(), None
    except Exception as error:
        return HttpResponse(status=500), error


def _values(row: Awaited) -> dict[Field[Any, Any], object]:
    return {
        field: _copied(field.value_from_object(row))
        for field in row._meta.concrete_fields
        if not field.primary_key
    }


def _differ(before: object, value: object) -> bool:
    try:
        different: Any = before != value
        return bool(different.any() if hasattr(different, "any") else different)  # of two arrays
    except Exception:
        return True


def _copied(value: object) -> object:
    if isinstance(value, FieldFile):
        # A new file may have the former's name.
        return value.name, getattr(value, "_committed", True)
    # psycopg2's bytes can't be copied; JSON can be changed in its place.
    return bytes(value) if isinstance(value, memoryview) else deepcopy(value)


# Runners -----------------------------------------------------------------------------------------


def _in_thread(path: str, pk: str, hold_id: str) -> None:
    """For development: what the process had begun is lost with it."""

    def body() -> None:
        try:
            execute(path, pk, hold_id)
        except BaseException:
            logger.exception("the work of %s on %s failed", path, pk)
        finally:
            connections.close_all()

    threading.Thread(target=body, name=path, daemon=True).start()


RUNNERS: dict[str, Callable[[str, str, str], object]] = {"thread": _in_thread}

if find_spec("celery"):
    from celery import shared_task

    by_celery: Any = shared_task(name="offload.execute", ignore_result=True)(execute)
    # Looked up when it is called: at import the project's Celery app may not be there yet.
    RUNNERS["celery"] = lambda *names: by_celery.delay(*names)  # noqa: PLW0108

if find_spec("django.tasks"):
    from django.tasks import task as django_task
    from django.tasks.exceptions import InvalidTask

    # The decorator wants a queue "default". A project without one uses another runner.
    with suppress(ImproperlyConfigured, InvalidTask):

        @django_task
        def by_django(path: str, pk: str, hold_id: str) -> None:
            """Stand under the name by which Django's worker looks the task up."""
            execute(path, pk, hold_id)

        RUNNERS["django"] = by_django.enqueue
