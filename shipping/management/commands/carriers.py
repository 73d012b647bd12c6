"""The health of each carrier: breaker, bulkhead, latency, and current outages."""

import os
from typing import Any

from django.conf import settings

from carriers import registry
from parcels.services.carrier_guards import guards_of
from shipping.ping import why_no_answer
from shipping.simulation import ask
from shipping.terminal import TerminalCommand, Trouble


class Command(TerminalCommand):
    help = "List the carriers: breaker, calls in flight, recent latency, outages."

    def handle(self, *args: Any, json: bool, **options: Any) -> None:
        if why := why_no_answer(settings.GUARDS_URL):
            raise Trouble(f"Nothing is known of the carriers: {why}", "make doctor")
        faults = _faults() if os.environ.get("SIMULATOR_URL") else {}
        self.show([_row(carrier, faults) for carrier in registry.CARRIERS.values()], as_json=json)


def _faults() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for fault in ask("GET", "/faults")["faults"]:
        if fault["state"] != "over":
            found.setdefault(fault["carrier"], []).append(fault["kind"])
    return found


def _row(carrier: Any, faults: dict[str, list[str]]) -> dict[str, Any]:
    standing = guards_of(carrier.code)
    recent = standing.recent()
    return {
        "carrier": carrier.code,
        "breaker": standing.mode(),
        "in_flight": f"{standing.in_flight()}/{standing.limit}",
        "p50": recent.p50,
        "p95": recent.p95,
        "error_share": round(recent.error_share, 3),
        "repeats": carrier.repeats,
        "outages": faults.get(carrier.code, []),
    }
