"""Numbers of the newer faults against what the product and the carriers promise."""

from dataclasses import replace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest

from carriers import registry
from carriers.base import Carrier
from loadtests.faults.fault import (
    SOLD_TWICE,
    Control,
    Dose,
    Fault,
    all_faults,
    execute_on,
    refused,
    reviewed,
)
from loadtests.faults.journals import AnnouncementRow, Booking, Journals, ParcelRow, Told
from loadtests.faults.kinds import f08_carrier_black_hole as f08
from loadtests.faults.kinds import f20_slower_than_deadline as f20
from loadtests.faults.kinds import f23_clocks_apart as f23
from loadtests.faults.kinds import f25_silent_database as f25
from loadtests.faults.kinds import f26_two_hang as f26
from loadtests.faults.kinds import f28_poison as f28
from loadtests.faults.kinds import f29_machines as f29
from loadtests.faults.rig import DEADLINE, Rig
from parcels import faults


@pytest.mark.parametrize("carrier", registry.CARRIERS.values(), ids=lambda carrier: carrier.code)
def test_a_slow_carrier_keeps_its_promise_all_the_same(carrier: Carrier) -> None:
    assert DEADLINE < f20.SLOW < f20.SLOWER <= DEADLINE + carrier.longest_work


@pytest.mark.parametrize("code", f20.LISTING)
def test_the_slowest_outlasts_the_settling_window(code: str) -> None:
    assert registry.CARRIERS[code].settling + DEADLINE < f20.SLOWEST


@pytest.mark.parametrize("code", f23.CARRIERS)
def test_a_wrong_clock_believes_an_absence_before_the_booking(code: str) -> None:
    settling = registry.CARRIERS[code].settling
    assert settling - f23.SKEW < f23.COMMIT < settling


def test_the_payload_that_kills_is_the_one_that_is_sent() -> None:
    assert f28.COMPANY == faults.KILL


@pytest.mark.parametrize("kind", all_faults().values(), ids=lambda kind: kind.id)
def test_a_product_that_refuses_everything_is_red(kind: type[Fault]) -> None:
    told = [Told("one", 0, sent_at=0.0, answered_at=0.1, status=503)] * 20
    assert not refused(kind, Journals(told=told)).met
    told.append(Told("two", 0, sent_at=0.0, hung_up=True))
    most = int(kind.may_refuse * 20)
    stored = Told("three", 0, sent_at=0.0, answered_at=0.1, status=202)
    assert refused(kind, Journals(told=[stored] * (20 - most) + told[20 - most :])).met


@pytest.mark.parametrize("kind", all_faults().values(), ids=lambda kind: kind.id)
def test_a_product_that_leaves_all_to_a_person_is_red(kind: type[Fault]) -> None:
    most = int(kind.may_review * 50)
    rows = [
        AnnouncementRow(number, number, "postnl", "R", "needs_review", 1, "")
        if number <= most
        else AnnouncementRow(number, number, "postnl", "R", "announced", 1, "T")
        for number in range(50)
    ]
    assert not reviewed(kind, Journals(announcements=rows)).met
    # One carrier can't tell what it holds.
    rows[0] = replace(rows[0], carrier="lantern")
    rows.append(replace(rows[-1], id=51))
    assert reviewed(kind, Journals(announcements=rows)).met


class Nothing(Fault):
    id, title, doses = "F0", "nothing", {"short": Dose(2)}

    def strike(self, rig: Rig) -> None:
        pass


def test_clients_that_were_never_sent_are_no_green_run() -> None:
    load = MagicMock(wishes=["one", "two"], told=[])
    rig = MagicMock(scale=0.1, database_kind="postgresql", broker_kind="", loads=[load])
    rig.journals.return_value = Journals()
    with pytest.raises(RuntimeError, match="0 of 2"):
        execute_on(rig, Nothing, "short", seed=1)
    load.told = ["one", "two", "two"]  # a client that repeats has been told more
    assert execute_on(rig, Nothing, "short", seed=1).green


class Alone(Nothing):
    alone, doses = True, {"short": Dose(1), "full": Dose(1)}
    controls = {"one": Control("I2"), "other": Control("I3")}


def at_rest(journals: Journals) -> MagicMock:
    rig = MagicMock(scale=1.0, database_kind="postgresql", broker_kind="", loads=[])
    rig.journals.return_value = journals
    return rig


@pytest.mark.parametrize(
    ("dose", "missed"),
    [
        ("short", {SOLD_TWICE, "left to a person"}),
        ("full", {SOLD_TWICE, "left to a person", "late answers"}),
    ],
)
def test_what_each_fault_is_measured_by(dose: str, missed: set[str]) -> None:
    row = AnnouncementRow(1, 1, "postnl", "R", "needs_review", 1, "")
    sold = [Booking("postnl", "R", shipment, shipment) for shipment in ("s1", "s2")]
    late = Told("one", 0, sent_at=0.0, answered_at=500.0, status=202)
    parcel = ParcelRow(1, 7, "one", 1001, "")
    journals = Journals(told=[late], parcels=[parcel], announcements=[row], ledger=sold)
    result = execute_on(at_rest(journals), Alone, dose, seed=1)
    assert {each.name for each in result.measures if not each.met} == missed


def test_a_control_whose_rows_never_end_waits_for_them_as_a_guarded_run() -> None:
    waits = []
    for control in ("", "one", "other"):
        rig = at_rest(Journals())
        execute_on(rig, Alone, "short", seed=1, control=control)
        waits.append(rig.rest.call_args.args[0])
    guarded, sold, never_ends = waits
    assert sold < never_ends == guarded


def test_a_quick_refusal_is_no_quick_answer() -> None:
    told = [Told("F8.during-1", 0, sent_at=0.0, answered_at=0.1, status=503)]
    assert f08.p99(Journals(told=told), "during") == 999


@pytest.mark.parametrize(("factor", "limit", "met"), [(1.1, "1.2", False), (1.2, "1.3", True)])
def test_during_a_fault_it_may_be_slower_by_a_factor(factor: float, limit: str, met: bool) -> None:
    parcel = [{"id": 1, "tracking_number": "3S1"}]
    told = [
        Told(f"F8.{when}-1", 0, sent_at=0.0, answered_at=took, status=200, parcels=parcel)
        for when, took in (("before", 1.0), ("during", 1.25))
    ]
    _, during = f08.compared(Journals(told=told), "others'", factor)
    assert (during.value, during.wanted, during.met) == (1.25, limit, met)


def test_a_breaker_is_not_judged_before_ten_have_timed_out() -> None:
    rig = MagicMock(scale=0.1)
    rig.wait_until.return_value = False
    with pytest.raises(RuntimeError, match="timed out"):
        f08.CarrierBlackHole(f08.CarrierBlackHole.doses["short"]).strike(rig)


@pytest.mark.parametrize(("hanging", "met"), [(0, False), (500, False), (640, True)])
def test_two_carriers_hang_with_more_calls_than_the_control_has_threads(
    hanging: int, met: bool
) -> None:
    fault = f26.TwoHang(f26.TwoHang.doses["short"])
    fault.hanging = hanging
    told = [Told(f"F26.{when}-1", 0, sent_at=0.0, answered_at=0.1, status=200)
            for when in ("before", "during")]  # fmt: skip
    measures = fault.measure(cast(Any, None), Journals(told=told))
    assert next(each.met for each in measures if each.name.startswith("calls that hung")) is met


def test_work_that_is_back_within_a_moment_is_back() -> None:
    fault = f25.SilentDatabase(f25.SilentDatabase.doses["short"])
    fault.worker, rig = 0.03, cast(Any, None)  # it asks nothing of it
    values = [(each.value, each.met) for each in fault.measure(rig, Journals())]
    assert values == [(0.0, True), ("never", False)]


def test_a_client_waits_from_its_first_request_to_its_parcel() -> None:
    parcel = [{"id": 1, "tracking_number": "3S1"}]
    told = [
        Told("one", 0, sent_at=0.0, answered_at=2.0, status=502),
        Told("one", 0, sent_at=3.0, answered_at=4.0, status=202),
        Told("one", 0, sent_at=5.0, answered_at=6.0, status=200, parcels=parcel),
        Told("two", 0, sent_at=8.0, answered_at=9.0, status=200, parcels=parcel),
    ]
    answers, silence, longest = (measure.value for measure in f29.costs("a step", told))
    assert answers == "200, label: 2, 202, empty: 1, 502: 1"
    assert (silence, longest) == (3.0, 6.0)
