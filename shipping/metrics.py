"""`/metrics`: the counters of all processes of this machine, and figures from the database.

Each process writes to files of its own in METRICS_DIR, whichever server runs it; the one that
is asked adds them up. The hub has no Django and shows its own on its own address.
"""

import secrets
import threading
import time
from collections.abc import Iterable

from django.conf import settings
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from carriers import registry
from carriers.guards import modes
from deploy.metric_files import forget_dead_processes, readable
from parcels.figures import QueueFigures, count_open_holds, queue_figures
from parcels.services.carrier_guards import guards_of

# Seconds: several or frequent scrapers cost the database one set of queries a second.
KEEP = 1.0
_LOOPBACK = {"127.0.0.1", "::1"}
_BREAKER = {"closed": 0, "half_open": 1, "open": 2}


def show(request: HttpRequest) -> HttpResponse:
    """Answer Prometheus; 404 without its token."""
    if not _may_see(request):
        raise Http404
    forget_dead_processes(settings.METRICS_DIR)
    registry = CollectorRegistry()
    Counted(registry, str(settings.METRICS_DIR))
    registry.register(STORED)
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _may_see(request: HttpRequest) -> bool:
    """Ask for the token; without one only the demo's own machine may look.

    Behind a front every client comes from loopback, so that alone is no proof in production.
    """
    if settings.METRICS_TOKEN:
        given = request.headers.get("Authorization", "").encode()
        return secrets.compare_digest(given, f"Bearer {settings.METRICS_TOKEN}".encode())
    return (settings.DEMO or settings.DEBUG) and request.META.get("REMOTE_ADDR") in _LOOPBACK


class Counted(MultiProcessCollector):
    """What all processes have counted, but for one that makes its file this moment."""

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self.merge(readable(settings.METRICS_DIR.glob("*.db")), accumulate=True)


class Stored(Collector):
    """What rows say: the same from whichever process it is asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._families: list[GaugeMetricFamily] = []

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the families; those of a second ago, if there are."""
        with self._lock:
            if time.monotonic() - self._read_at >= KEEP:
                self._families = _families()
                self._read_at = time.monotonic()
            return self._families

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Say nothing: registering must not ask the database."""
        return []


def _families() -> list[GaugeMetricFamily]:
    breakers = GaugeMetricFamily(
        "carrier_breaker_state", "0 closed, 1 half-open, 2 open", labels=["carrier"]
    )
    every = [guards_of(code) for code in registry.CARRIERS]
    for guards, mode in zip(every, modes(every), strict=True):
        if not guards.redis.gone:  # missing, not 0: each process has breakers of its own then
            breakers.add_metric([guards.carrier], _BREAKER[mode])
    try:
        return [*_queues(queue_figures()), _holds(count_open_holds()), breakers]
    except DatabaseError:
        return [breakers]  # missing, not 0


def _queues(figures: list[QueueFigures]) -> list[GaugeMetricFamily]:
    labels = ["carrier", "state"]
    length = GaugeMetricFamily("announcement_queue_length", "Not yet ended", labels=labels)
    age = GaugeMetricFamily(
        "announcement_queue_age_seconds", "Age of the oldest that has not ended", labels=labels
    )
    for figure in figures:
        length.add_metric([figure.carrier, figure.state], figure.length)
        age.add_metric([figure.carrier, figure.state], figure.oldest)
    return [length, age]


def _holds(count: int) -> GaugeMetricFamily:
    return GaugeMetricFamily("holds_open", "Clients that wait, by the database", value=count)


STORED = Stored()
