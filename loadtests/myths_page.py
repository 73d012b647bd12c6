"""The tables of "Myths, measured": each piece of advice beside the runs that show what it does."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadtests.decision import DOUBT, NOT_MEASURED, seconds
from loadtests.myths import FOLDER
from loadtests.tables import number, percent

BASE = "sync view, 5 workers"
ASYNC = "async view, one ASGI process"
# The name of a part of the page, and the ways that it sets side by side.
MYTHS: Mapping[str, Sequence[str]] = {
    "myth-time-out": ("sync view, 5 workers, clients give up after 5 s", BASE),
    "myth-async-on-wsgi": (BASE, "async view, 5 WSGI workers", ASYNC),
    "myth-threads": (
        BASE,
        "sync view, 5 workers of 8 threads",
        "sync view, 5 workers of 8 threads, 80 clients",
    ),
    "myth-celery-get": (BASE, "Celery and .get(), 5 workers"),
    "myth-sync-on-asgi": (
        "sync view, one ASGI process",
        "async view, one sync middleware, one ASGI process",
        ASYNC,
        "sync view, one ASGI process, 400 clients",
        "async view, one ASGI process, 400 clients",
    ),
}
HEAD = (
    "served by",
    "clients",
    "labels per s",
    "of the limit",
    "failed",
    "wait, p50",
    "wait, max",
    "cheap reads, p99",
    "threads",
    "MB",
)


def read() -> dict[str, Any] | None:
    """Return the committed raw data; None where there are none."""
    path = FOLDER / "results.json"
    return json.loads(path.read_text()) if path.exists() else None


def table(results: Mapping[str, Any] | None, part: str) -> Iterator[str]:
    """Yield one part's table; a way that was not run is not measured."""
    yield f"| {' | '.join(HEAD)} |"
    yield f"|---|{'---:|' * (len(HEAD) - 1)}"
    runs = {run["way"]: run for run in results["runs"]} if results else {}
    for way in MYTHS[part]:
        cells = _cells(runs[way]) if way in runs else [NOT_MEASURED] * (len(HEAD) - 1)
        yield f"| {' | '.join([way, *cells])} |"


def _cells(run: Mapping[str, Any]) -> Iterator[str]:
    labels = run["streams"]["labels"]
    latency = labels["latency"] or {"p50": math.inf, "maximum": math.inf}
    doubt = DOUBT if run["validity"]["reasons"] else ""
    yield str(run["clients"])
    yield number(labels["goodput"]) + doubt
    yield percent(labels["goodput"] / run["limit"]) + doubt
    yield NOT_MEASURED if labels["error_share"] is None else percent(labels["error_share"])
    yield seconds(latency["p50"])
    yield seconds(latency["maximum"])
    yield _cheap(run["streams"]["cheap reads"])
    yield NOT_MEASURED if run["threads"] is None else str(run["threads"])
    yield NOT_MEASURED if run["memory"] is None else number(round(run["memory"]))


def _cheap(reads: Mapping[str, Any]) -> str:
    """Return the p99 of the answered ones, and how many were not."""
    open_ = reads["asked"] - reads["good"]
    said = seconds(reads["latency"]["p99"] if reads["latency"] else math.inf)
    return f"{said}, {open_} of {reads['asked']} unanswered" if open_ else said


def card(results: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield when, on what, at which commit and by which command the runs were made."""
    if results is None:
        yield "Not measured yet: `python -m loadtests myths`, then `make results`."
        return
    machine = results["machine"]
    packages = ("django", "gunicorn", "uvicorn", "celery")
    versions = [f"{name} {machine['packages'][name]}" for name in packages]
    yield (
        f"Runs of {results['seconds']:g} s each at a carrier that takes "
        f"{results['carrier_seconds']:g} s, {results['began']}, one of each. "
        f"{machine['cores']} × {machine['processor']}, Python {machine['python']}, "  # noqa: RUF001
        f"{', '.join(versions)}; commit {machine['commit'] or 'unknown'}; "
        f"`{results['command']}`; [raw data](myths/results.json)."
    )
    bad = [run["way"] for run in results["runs"] if run["validity"]["reasons"]]
    if bad:
        yield ""
        yield f"{DOUBT.strip()} the sending side was late: {'; '.join(bad)}."
