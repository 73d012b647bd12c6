"""Load at the start what Django would load with the first request."""

import importlib

from django.conf import settings


def load_views() -> None:
    """Import the URLconf and all that it names.

    Before the first clients, who would wait a second for it, several threads of a process at once;
    and, where a server forks afterwards, once for all its processes.
    """
    importlib.import_module(settings.ROOT_URLCONF)
