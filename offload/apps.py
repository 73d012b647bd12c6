"""The Django app: system checks, and nothing else."""

from django.apps import AppConfig
from django.core.checks import register


class OffloadConfig(AppConfig):
    """Holds and releases."""

    name = "offload"

    def ready(self) -> None:
        from offload.checks import check_offload

        register(check_offload)
