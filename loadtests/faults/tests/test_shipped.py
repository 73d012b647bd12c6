"""The suite is black-box and repeats some of the product's numbers: they must be the same."""

import pytest
from django.conf import settings

from carriers import registry
from carriers.simulator.catalogue import CATALOGUE
from loadtests.faults.invariants import ASKABLE
from loadtests.faults.kinds import f08_carrier_black_hole, f10_late_commit, f18_recovery
from loadtests.faults.rig import DEADLINE, LATENCIES, LEASE, SETTLING, WAIT


def test_the_latencies_are_the_simulators() -> None:
    shipped = {spec.code: (spec.latency.p50, spec.latency.p95) for spec in CATALOGUE.values()}
    assert shipped == LATENCIES


def test_the_carriers_that_can_be_asked() -> None:
    assert {spec.code for spec in CATALOGUE.values() if spec.repeats != "none"} == ASKABLE


def test_no_carrier_settles_for_longer_than_the_suite_waits() -> None:
    assert max(carrier.settling for carrier in registry.CARRIERS.values()) <= SETTLING


@pytest.mark.parametrize("code", f10_late_commit.CARRIERS)
def test_a_late_commit_is_listed_within_the_settling_window(code: str) -> None:
    assert registry.CARRIERS[code].settling == f10_late_commit.WINDOW
    assert f10_late_commit.COMMIT + f10_late_commit.LAG < f10_late_commit.WINDOW


def test_the_times_are_the_shipped_ones() -> None:
    shipped = (
        settings.CARRIER_CALL_DEADLINE, settings.ANNOUNCEMENT_LEASE, settings.WAIT_DEFAULT,
    )  # fmt: skip
    assert shipped == (DEADLINE, LEASE, WAIT)


def test_the_breakers_are_the_shipped_ones() -> None:
    ramp = (
        settings.CARRIER_BREAKER_OPEN_FOR, settings.CARRIER_BREAKER_RAMP_FOR,
        settings.CARRIER_BREAKER_RAMP_FROM, settings.CARRIER_BREAKER_RAMP_TO,
    )  # fmt: skip
    f18 = f18_recovery
    assert ramp == (f18.OPEN_FOR, f18.RAMP_FOR, f18.RAMP_FROM, f18.RAMP_TO)
    assert settings.CARRIER_BREAKER_MIN_CALLS == f08_carrier_black_hole.OPENING
    assert f18.LIMITS["full"] == settings.CARRIER_BULKHEAD
