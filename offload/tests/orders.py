"""An awaited model and its work, as a project would write them."""

from typing import ClassVar

from django.core.files.storage import InMemoryStorage
from django.db import models
from django.http import JsonResponse
from rest_framework.response import Response

import offload


class Order(offload.Awaited):
    label = models.CharField(max_length=50, default="")
    note = models.CharField(max_length=50, default="")
    parts = models.JSONField(default=dict)
    updated_at = models.DateTimeField(auto_now=True)
    document = models.FileField(storage=InMemoryStorage(), default="")
    objects: ClassVar[models.Manager] = models.Manager()

    class Meta:
        app_label = "offload_tests"

    def outcome(self):
        if self.note == "drf":
            return Response({"order": self.pk, "label": self.label})
        if self.note == "unspeakable":
            raise LookupError(self.note)
        if self.note == "clash":
            Order.objects.create(pk=self.pk)
        return JsonResponse({"order": self.pk, "label": self.label})


class Express(Order):
    """Of a table of its own beside that of the orders."""

    class Meta:
        app_label = "offload_tests"


class Line(offload.Awaited):
    """Of a key of two columns."""

    pk = models.CompositePrimaryKey("number", "place")
    number = models.IntegerField()
    place = models.IntegerField()
    label = models.CharField(max_length=50, default="")
    note = ""
    parts: ClassVar[dict[str, bool]] = {}
    objects: ClassVar[models.Manager] = models.Manager()

    class Meta:
        app_label = "offload_tests"

    def outcome(self):
        return {"label": self.label}


@offload.task(Order)
def buy_label(order):
    order.parts["seen"] = True
    if order.note == "broken":
        raise RuntimeError("the carrier is out")
    order.label = f"label of {order.pk}"
