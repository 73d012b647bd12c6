"""Adding a carrier is adding a file."""

import sys
from decimal import Decimal
from types import SimpleNamespace

import pytest

from carriers import registry
from carriers.adapters import CODES
from carriers.methods import EUROPEAN_UNION, EVERYWHERE
from carriers.simulator.catalogue import CATALOGUE


def test_a_code_that_is_not_the_file_s_name_is_refused(monkeypatch):
    module = SimpleNamespace(carrier=SimpleNamespace(code="ibis"))
    monkeypatch.setitem(sys.modules, "carriers.adapters.one", module)
    with pytest.raises(ValueError, match="ibis"):
        registry.load("one")


def test_the_carriers_and_their_methods():
    assert {carrier.code: carrier.repeats for carrier in registry.CARRIERS.values()} == {
        "postnl": "lookup",
        "tortoise": "lookup",
        "colibri": "dedup",
        "lantern": "none",
        "meridian": "lookup",
    }
    assert {
        id_: (method.name, method.carrier) for id_, method in registry.SHIPPING_METHODS.items()
    } == {
        8: ("Unstamped letter", "postnl"),
        10: ("Tortoise Post Standard 0-23kg", "tortoise"),
        20: ("Colibri Express 0-5kg", "colibri"),
        21: ("Colibri Express 5-31kg", "colibri"),
        30: ("Lantern Freight 0-70kg", "lantern"),
        40: ("Meridian Mail 0-20kg", "meridian"),
    }


def test_each_carrier_has_its_simulated_counterpart():
    """Both number their default ports by it."""
    assert [*CATALOGUE] == CODES == [spec.code for spec in CATALOGUE.values()]


@pytest.mark.parametrize("method", registry.SHIPPING_METHODS.values(), ids=lambda m: str(m.id))
def test_a_method_is_well_formed(method):
    assert registry.SHIPPING_METHODS[method.id] is method
    assert registry.CARRIERS[method.carrier]
    assert Decimal(0) < Decimal(method.min_weight) < Decimal(method.max_weight)
    for weight in (method.min_weight, method.max_weight):
        assert len(weight.partition(".")[2]) == 3
    assert set(method.countries) >= {"NL", "GB", "US", "CH"}


def test_lookup_carriers_have_a_settling_window_that_outlasts_their_work():
    for carrier in registry.CARRIERS.values():
        assert (carrier.settling > 0) == (carrier.repeats == "lookup")
        assert carrier.longest_work > 0
        assert carrier.settling >= carrier.longest_work or carrier.repeats != "lookup"


def test_countries():
    assert len(EUROPEAN_UNION) == 27
    assert len(set(EVERYWHERE)) == 30


@pytest.mark.parametrize(
    "ask", [lambda: registry.CARRIERS["dodo"], lambda: registry.SHIPPING_METHODS[0]]
)
def test_what_is_not_there_is_a_key_error(ask):
    with pytest.raises(KeyError):
        ask()
