"""Where notifications go."""

from django.conf import settings
from django.db import models


class Channel(models.Model):
    """A webhook of a user's."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE)
    name = models.CharField(max_length=100)
    url = models.URLField()
    error = models.CharField(max_length=200, blank=True, default="")
