"""The app that brings the table: "offload.postgresql" in INSTALLED_APPS."""

from django.apps import AppConfig


class PostgresqlConfig(AppConfig):
    """A table, and no models."""

    name = "offload.postgresql"
    label = "offload_postgresql"
