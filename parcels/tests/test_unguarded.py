"""Each guard can be taken away, in a process that is asked to, and comes back in a test."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from django.core.exceptions import ImproperlyConfigured

from carriers.registry import CARRIERS
from parcels import unguarded
from parcels.services import claim, next_state, reconcile, spares, void
from parcels.services.claim import MAX_CLAIMS
from parcels.unguarded import WITHOUT, without


@pytest.mark.parametrize("guard", WITHOUT)
def test_what_was_taken_away_comes_back(guard: str) -> None:
    before = [getattr(owner, name) for owner, name, _ in WITHOUT[guard]]
    with without(guard):
        now = [getattr(owner, name) for owner, name, _ in WITHOUT[guard]]
        assert all(new is not old for new, old in zip(now, before, strict=True))
    assert before == [getattr(owner, name) for owner, name, _ in WITHOUT[guard]]


def test_every_module_that_has_a_name_for_it_loses_it() -> None:
    with without("settling"):
        assert reconcile.settling is void.settling is spares.settling is next_state.settling
        assert reconcile.settling(CARRIERS["postnl"]) == unguarded.SHORT_SETTLING


def test_a_module_that_is_loaded_meanwhile_gets_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the views are by a test's first request: the next test would do without the guard."""
    loaded = ModuleType("parcels.loaded")
    with without("settling"):
        vars(loaded)["settling"] = next_state.settling
        monkeypatch.setitem(sys.modules, loaded.__name__, loaded)
    assert vars(loaded)["settling"] is next_state.settling


def test_a_test_keeps_the_bound_that_it_checks() -> None:
    with without("claims"):
        assert (MAX_CLAIMS, claim.MAX_CLAIMS) == (5, unguarded.MANY)


def test_a_guard_that_is_not_there_ends_the_start() -> None:
    with pytest.raises(ImproperlyConfigured, match="FAULT_GUARDS_OFF: there is no guard 'luck'"):
        unguarded.take_away("claims", "luck")
    assert claim.MAX_CLAIMS == 5


@pytest.mark.parametrize(("off", "most"), [("", 5), ("turns,claims", unguarded.MANY)])
def test_the_setting_takes_them_away_when_a_process_starts(off: str, most: int) -> None:
    asked = "import django; django.setup(); from parcels.services import claim, reconcile;"
    printed = subprocess.run(
        [sys.executable, "-c", f"{asked} print(claim.MAX_CLAIMS, reconcile.MAX_CLAIMS)"],
        cwd=Path(unguarded.__file__).parents[1],
        env=os.environ | {"DEBUG": "1", "FAULT_GUARDS_OFF": off},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert printed.stdout.split() == [str(most)] * 2
