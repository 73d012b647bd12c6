"""The Django app: system checks, and nothing else."""

import logging

from django.apps import AppConfig
from django.core.checks import register


class OffloadConfig(AppConfig):
    """Holds and releases."""

    name = "offload"

    def ready(self) -> None:
        from offload.checks import check_offload

        register(check_offload)
        # Django's dictConfig disables loggers that are there already, by default, and asgi.py has
        # imported us before.
        logging.getLogger("offload").disabled = False
