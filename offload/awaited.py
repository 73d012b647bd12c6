"""A model whose rows clients wait for, and the lookup of their outcomes."""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.db import models, router
from django.http import HttpResponse, JsonResponse
from django.utils import timezone

from offload import conf
from offload.responses import MOST_TEXT, to_response
from offload.store import Released, to_answer

logger = logging.getLogger("offload")


class HoldState(models.TextChoices):
    """Where the work for a row is."""

    WAITING = "waiting"
    WORKING = "working"
    DONE = "done"
    FAILED = "failed"


UNFINISHED = (HoldState.WAITING, HoldState.WORKING)


class Awaited(models.Model):
    """Mixin for the rows that `offload.run` works on; `outcome` returns what the client gets.

    The columns may be null, so that a table with rows takes them.
    """

    # New for each wait: an answer that was stored for one is not the next one's.
    hold_id = models.CharField(max_length=32, unique=True, null=True, editable=False)
    hold_state = models.CharField(
        max_length=8, choices=HoldState.choices, default=HoldState.DONE, editable=False
    )
    # When the wait ends. OFFLOAD["ANSWER_TTL"] later the outcome is no longer available.
    hold_until = models.DateTimeField(null=True, editable=False)
    # How DRF's responses are rendered for this client.
    hold_renderer = models.CharField(max_length=MOST_TEXT, default="", blank=True, editable=False)

    class Meta:
        abstract = True

    def outcome(self) -> Released:
        """Return what the client gets when the work is done."""
        raise NotImplementedError(f"{type(self).__name__} says in outcome() what its client gets")

    def late(self) -> HttpResponse:
        """Return what the client gets while the work is under way and its time is up."""
        return JsonResponse({"state": "working"}, status=202, headers={"Retry-After": "5"})

    def failure(self) -> Released:
        """Return what the client gets when the work has raised."""
        return HttpResponse("Server Error\n", status=500, content_type="text/plain")

    def begin_hold(self, seconds: float, renderer: str) -> bool:
        """Open a new wait; False where another request has one open, which this one joins."""
        # Work may go on after its client's wait; started twice it would be done twice. If it has
        # not ended ANSWER_TTL seconds later, it is taken for lost.
        until = self.hold_until
        if self.hold_state in UNFINISHED and until is not None and until > _oldest():
            return False
        new = {
            "hold_id": uuid4().hex,
            "hold_state": HoldState.WAITING,
            "hold_until": timezone.now() + timedelta(seconds=seconds),
            "hold_renderer": renderer,
        }
        # The row may have been read from a replica.
        alias = router.db_for_write(type(self), instance=self)
        rows = self.hold_rows(alias)
        key = getattr(self, rows.model._meta.pk.attname)
        # Of two requests at once one changes the row, and the other one sees it.
        if rows.filter(pk=key, hold_id=self.hold_id).update(**new):
            for name, value in new.items():
                setattr(self, name, value)
            return True
        self.refresh_from_db(using=alias, fields=list(new))
        return False

    @classmethod
    def hold_rows(cls, alias: str) -> models.QuerySet[Any]:
        """Return the rows of the table that has these columns, to change them.

        Django's update of a parent's columns selects first, and then writes.
        """
        model: Any = cls._meta.get_field("hold_id").model
        rows: models.QuerySet[Any] = model._base_manager.using(alias)
        return rows

    def hold_answer(self) -> HttpResponse:
        """Return what the client gets now, rendered."""
        says = {HoldState.DONE: self.outcome, HoldState.FAILED: self.failure}
        response = says.get(HoldState(self.hold_state), self.late)()
        return to_response(to_answer(response, self.hold_renderer))


def resolve(hold_ids: list[str], *, final_only: bool = True) -> dict[str, HttpResponse]:
    """Tell the outcomes of all awaited models; the default of OFFLOAD["RESOLVE"]."""
    answers = {}
    for model in awaited_models():
        rows = model._base_manager.filter(hold_id__in=hold_ids, hold_until__gt=_oldest())
        for row in rows.exclude(hold_state__in=UNFINISHED) if final_only else rows:
            try:
                answers[str(row.hold_id)] = row.hold_answer()
            except Exception:
                logger.exception("no answer can be made of %s %s", model._meta.label, row.pk)
                answers[str(row.hold_id)] = HttpResponse(status=500)
    return answers


def _oldest() -> datetime:
    """Return the end of the wait that outcomes are still told of."""
    return timezone.now() - timedelta(seconds=conf.current().answer_ttl)


def awaited_models() -> Iterator[type[Awaited]]:
    """Return each model that has a table of its own."""
    found = Awaited.__subclasses__()
    while found:
        model = found.pop()
        found += model.__subclasses__()
        if not (model._meta.abstract or model._meta.proxy):
            yield model
