"""What is counted and measured. No personal data: labels are codes, routes and states.

Every metric has a label, so that a process that counts nothing leaves no file behind
(PROMETHEUS_MULTIPROC_DIR, set by the settings, holds one per process and kind).
"""

from collections import Counter as Counted
from collections.abc import Iterable
from contextlib import AbstractContextManager

from prometheus_client import Counter, Gauge, Histogram

# Seconds. A stored parcel takes some milliseconds, a carrier 0.2 to 30 s, a held answer up to 120.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120)

REQUESTS = Counter("http_requests_total", "Requests answered", ["method", "route", "status"])
REQUEST_SECONDS = Histogram(
    "http_request_duration_seconds",
    "From the request's arrival in Django to its answer",
    ["method", "route"],
    buckets=_BUCKETS,
)
WORKERS = Gauge(
    "workers_busy",
    "Workers that serve a request now (serving), and of these who wait for a carrier (waiting)",
    ["state"],
    multiprocess_mode="livesum",
)
TRIES = Counter(
    "announcement_tries_total", "Tries at carriers by outcome", ["carrier", "kind", "outcome"]
)
TRY_SECONDS = Histogram(
    "announcement_try_duration_seconds",
    "From the first connect to the outcome",
    ["carrier"],
    buckets=_BUCKETS,
)
GUARD_TROUBLE = Counter(
    "carrier_guard_trouble_total",
    "What a store did not answer or take: of breakers and bulkheads (guards), wake-ups (broker)",
    ["purpose"],
)
TURNED_AWAY = Counter(
    "announcement_turned_away_total", "Calls that our own guards held back", ["carrier", "reason"]
)
SECOND_LABELS = Counter(
    "second_labels_total",
    "Labels that a carrier sold beside the one that is kept, by where they were seen",
    ["source"],
)
SPARES = Gauge(
    "spare_labels_open",
    "Labels beside the one that is kept which the carrier has not taken back yet",
    ["carrier"],
    multiprocess_mode="livemax",
)
WEBHOOK_TRIES = Counter(
    "webhook_tries_total", "Webhooks sent or given up, by what the delivery became", ["state"]
)
WEBHOOK_SECONDS = Histogram(
    "webhook_duration_seconds", "One try at a receiver", ["state"], buckets=_BUCKETS
)
WEBHOOKS_OFF = Counter(
    "webhook_endpoints_switched_off_total", "Endpoints that we switched off", ["reason"]
)
THROTTLED = Counter("throttled_total", "Requests answered 429", ["limit"])
NOT_WAITED = Counter(
    "waits_cut_short_total",
    "Requests answered at once as their account had its share of the threads that wait",
    ["kind"],
)
THROTTLE_TROUBLE = Counter(
    "throttle_trouble_total", "Requests let through because Redis was away", ["limit"]
)
STORAGE_TROUBLE = Counter(
    "label_storage_trouble_total",
    "Documents that could not be written to the storage or read, and files that no row named",
    ["what"],
)
STORAGE_BEHIND = Gauge(
    "label_storage_behind_seconds",
    "How far the sweeper is behind with rows and files that are a day old",
    ["cursor"],
    multiprocess_mode="livemin",
)
HISTORY_UNPLACED = Gauge(
    "history_rows_unplaced",
    "Attempts and tracking events for whose month there is no partition",
    ["table"],
    multiprocess_mode="livemax",
)


_spares_of: set[str] = set()


def count_spares(carriers: Iterable[str]) -> None:
    """Set the open spare labels; `carriers` has each one's carrier."""
    counted = Counted(carriers)
    for carrier in {*counted, *_spares_of}:
        SPARES.labels(carrier).set(counted[carrier])
    _spares_of.update(counted)


def guard_trouble(purpose: str) -> None:
    """Count what a Redis did not answer, or a broker did not take."""
    GUARD_TROUBLE.labels(purpose).inc()


def waiting() -> AbstractContextManager[None]:
    """Count this worker as one that waits for a carrier."""
    return WORKERS.labels("waiting").track_inprogress()
