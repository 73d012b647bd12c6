"""Load at the start what Django would load with the first request."""

from django.urls import get_resolver


def load_views() -> None:
    """Import the URLconf and all that it names.

    Before a server forks, so that its processes share the memory; and before the first clients, who
    would wait a second for it, several threads of a process at once.
    """
    get_resolver().url_patterns  # noqa: B018  # read for its effect
