"""The app."""

from django.apps import AppConfig


class MonitorConfig(AppConfig):
    """Channels that are told when something is down."""

    name = "monitor"
