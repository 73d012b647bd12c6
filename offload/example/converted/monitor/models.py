"""Where notifications go."""

import offload
from django.conf import settings
from django.contrib.messages import SUCCESS, WARNING
from django.db import models
from django.shortcuts import redirect
from rest_framework.response import Response


class Channel(offload.Awaited):
    """A webhook of a user's."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    name = models.CharField(max_length=100)
    url = models.URLField()
    error = models.CharField(max_length=200, blank=True, default="")

    def outcome(self):
        if self.hold_renderer:
            return Response({"channel": self.name, "error": self.error}, 502 if self.error else 200)
        if self.error:
            return offload.add_message(redirect("/"), WARNING, f"Could not send: {self.error}")
        return offload.add_message(redirect("/"), SUCCESS, "Test notification sent!")
