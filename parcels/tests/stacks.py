"""Whole deployments for the integration tests: real processes, short times."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import requests

from deploy.stack import Stack
from deploy.tests.waiting import until
from parcels.tests.requests import body

# Seconds: calls end early, leases run out early, absences are believed early.
SHORT = {
    "CARRIER_CALL_DEADLINE": "6",
    "CARRIER_CONNECT_TIMEOUT": "1",
    "ANNOUNCEMENT_LEASE": "13",
    "TIME_SCALE": "0.1",
    "SIMULATOR_LATENCY_TORTOISE": "3",
    "SIMULATOR_LATENCY_COLIBRI": "0.3",
    "WEB_WORKERS": "1",
    "WORKER_CONCURRENCY": "100",
}
FINAL = ("announced", "failed", "cancelled", "voided", "needs_review")


class Site:
    """A running deployment, as its clients and its operator see it."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.api = f"{stack.base_url}/api/v2"
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.auth = (stack.public_key, stack.secret_key)

    def create(self, *, headers: dict[str, str] | None = None, **changes: Any) -> requests.Response:
        """POST one parcel."""
        return self.session.post(
            f"{self.api}/parcels", json={"parcel": body(**changes)}, headers=headers, timeout=90
        )

    def parcel(self, parcel_id: int) -> dict[str, Any]:
        """GET one parcel, with the carrier's errors."""
        url = f"{self.api}/parcels/{parcel_id}?errors=verbose-carrier"
        parcel: dict[str, Any] = self.session.get(url, timeout=30).json()["parcel"]
        return parcel

    def wait_for_status(self, parcel_id: int, status: int, seconds: float = 30) -> dict[str, Any]:
        """Poll until the parcel has the status; return it."""
        until(lambda: self.parcel(parcel_id)["status"]["id"] == status, f"status {status}", seconds)
        return self.parcel(parcel_id)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the deployment's database."""
        url = self.stack.env["DATABASE_URL"]
        if url.startswith("sqlite"):
            with closing(sqlite3.connect(urlsplit(url).path[1:], timeout=30)) as connection:
                return connection.execute(sql).fetchall()
        with psycopg.connect(url) as opened:
            return opened.execute(sql).fetchall()

    def unfinished(self) -> int:
        """Count the announcements that have not ended."""
        return sum(
            row[0] not in FINAL for row in self.rows("SELECT state FROM parcels_announcement")
        )

    def ledger(self) -> list[dict[str, Any]]:
        """Return what the carriers have sold."""
        lines = Path(self.stack.env["SIMULATOR_LEDGER"]).read_text().splitlines()
        return [json.loads(line) for line in lines]


@contextmanager
def running(strategy: str, database: str, **env: str) -> Iterator[Site]:
    """Start a deployment for a block."""
    with Stack(strategy, database=database, env=SHORT | env) as stack:
        yield Site(stack)
