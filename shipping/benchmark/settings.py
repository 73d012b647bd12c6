"""The project's settings with one address more."""

from shipping.settings import *  # noqa: F403 # all of them, that is the point

ROOT_URLCONF = "shipping.benchmark.urls"
