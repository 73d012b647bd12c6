"""Load at the start what Django would load with the first request."""

import importlib

from django.conf import settings


def load_views() -> None:
    """Import the URLconf and all that it names.

    Otherwise the first clients would wait a second for it, in several threads of a process at once.
    If a server forks afterwards, it is done once for all its processes.
    """
    importlib.import_module(settings.ROOT_URLCONF)
