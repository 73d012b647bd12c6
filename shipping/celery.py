"""The Celery application; tasks live in the apps."""

import os

from celery import Celery
from celery.signals import worker_ready, worker_shutdown, worker_shutting_down

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shipping.settings")

app = Celery("shipping")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_ready.connect
def _tell_ready(**_: object) -> None:
    """Write this process' id where the supervisor looks for it."""
    from django.conf import settings

    settings.RUN_DIR.mkdir(parents=True, exist_ok=True)
    name = os.environ.get("WORKER", "worker")
    (settings.RUN_DIR / f"{name}.ready").write_text(str(os.getpid()))


@worker_shutting_down.connect
def _stop_listening(**_: object) -> None:
    """Claim no more than what is here, at the first signal that ends this worker."""
    from parcels.services.announcer import LOOP

    LOOP.stop_listening()


@worker_shutdown.connect
def _drain(**_: object) -> None:
    """Let the calls under way end: what was sent must be recorded."""
    from parcels.services.announcer import LOOP

    LOOP.drain()
