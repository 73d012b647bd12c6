"""The project's own app: system checks and management commands."""

from django.apps import AppConfig


class ShippingConfig(AppConfig):
    name = "shipping"

    def ready(self) -> None:
        from shipping import checks  # noqa: F401 # registers them
