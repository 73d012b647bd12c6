"""Sequences that the search found, and that broke the protocol before they were mended."""

from typing import Any

import pytest

from parcels.models import Announcement, SpareLabel, SpareState, State
from parcels.statuses import Status
from parcels.tests.test_state_machine import Protocol, machine, world

__all__ = ["machine", "world"]  # the fixtures


def sold(machine: Protocol, carrier: str) -> Any:
    row: Any = machine.accept(carrier)
    machine.deliver_messages(row, ["well"])
    return row


def test_a_pending_one_that_ends_its_processes_goes_to_a_person(machine: Protocol) -> None:
    row = machine.accept("postnl")
    machine.poison(row)
    for _ in range(10):
        machine.pass_time(90)
        machine.sweep_once(["well"])
    assert Announcement.objects.get().state == State.NEEDS_REVIEW


@pytest.mark.parametrize("carrier", ["colibri", "lantern"])
def test_a_label_that_a_dead_process_voided_is_cancelled(machine: Protocol, carrier: str) -> None:
    row = sold(machine, carrier)
    machine.cancel(row)
    machine.kill(machine.start(row, ["well"], 2))
    assert not machine.world.live(Announcement.objects.get().reference)
    machine.pass_time(180)  # its lease, and until a carrier's list shows what became of it
    machine.sweep_once(["well"])
    assert Announcement.objects.get().parcel.status == Status.CANCELLED  # 94, and printable


@pytest.mark.parametrize("carrier", ["colibri", "lantern"])
def test_a_401_does_not_prove_a_void(machine: Protocol, carrier: str) -> None:
    row = sold(machine, carrier)
    machine.cancel(row)
    machine.deliver_messages(row, ["lost"])
    machine.pass_time(90)
    machine.deliver_messages(row, ["credentials"])
    assert Announcement.objects.get().state == State.ANNOUNCED  # its label is live, and paid for


def test_a_spare_that_is_a_voided_label_is_closed(machine: Protocol) -> None:
    row = machine.accept("colibri")
    slow: Any = machine.start(row, ["well"], 4)
    for _ in range(2):
        machine.pass_time(80)
        machine.sweep_once(["well"])
    assert Announcement.objects.get().state == State.ANNOUNCED
    slow.go_on(10**6)
    machine.cancel(row)
    machine.deliver_messages(row, ["well"])
    assert Announcement.objects.get().state == State.VOIDED
    for _ in range(3):
        machine.pass_time(4000)
        machine.sweep_once(["well"])
    assert not SpareLabel.objects.filter(state=SpareState.OPEN).exists()  # an alarm for ever
