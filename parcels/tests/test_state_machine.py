"""The real services against a model: any order of claims, sends, deaths, pauses and sweeps.

Time is moved by moving every stored moment back, so that the database's own clock stays in charge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import F
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

from carriers import registry, transport
from carriers.outcomes import (
    Absent,
    Announced,
    Document,
    Found,
    NotSent,
    Outcome,
    Refused,
    Throttled,
    Unknown,
    Voided,
)
from parcels.models import Account, Announcement, Attempt, Hold, Parcel, State
from parcels.models import Document as DocumentRow
from parcels.services import protect, sweep
from parcels.services.announce import Job, announce, finish, leave, prepare
from parcels.services.reconcile import reconcile
from parcels.tests.factories import PDF, AnnouncementFactory

SETTLING = 30.0
# A booking may come this long after the guard's row at most, and still be within the window: the
# connection and the guard's own second come before the send.
LATEST = SETTLING - 5
MOMENTS = (
    "run_at",
    "wake_at",
    "deadline_at",
    "lease_until",
    "claimed_at",
    "sent_at",
    "date_created",
)
# What a carrier may do with a purchase: does it book, after how long, and what do we hear?
FATES = st.sampled_from(
    ["label", "label", "refused", "throttled", "unreachable", "lost", "booked_lost", "late_lost"]
)


@dataclass
class Booking:
    shows_at: float
    label: Announced


@dataclass
class World:
    """The carriers' side: a clock, a ledger per reference, and what comes next."""

    now: float = 0.0
    ledger: dict[str, list[Booking]] = field(default_factory=dict)
    fate: str = "label"
    sold: int = 0

    def buy(self, carrier: Any, reference: str, fate: str) -> Outcome:
        held = self.ledger.setdefault(reference, [])
        if fate == "unreachable":
            return NotSent("unreachable")
        if fate == "throttled":
            return Throttled(1.0, nothing_made=True)
        if fate == "lost":
            return Unknown("reset")
        if held and carrier.repeats == "dedup":
            return held[0].label if fate in ("label", "refused") else Unknown("timeout")
        if fate == "refused":
            return Refused("NO", "no")
        self.sold += 1
        label = Announced(
            f"c{self.sold}", f"T{self.sold}", Decimal(1), (Document("label", "pdf", PDF),)
        )
        held.append(Booking(self.now + (LATEST if fate == "late_lost" else 0), label))
        return label if fate == "label" else Unknown("timeout")

    def perform(self, steps: Any, *_: Any, may_buy: Any = None, **__: Any) -> Any:
        """Stand in for the transport."""
        name, known = steps.gi_code.co_name, steps.gi_frame.f_locals
        steps.close()
        carrier = known["self"]
        if name == "announce":
            if not may_buy():
                return NotSent("send_forbidden")
            return self.buy(carrier, known["consignment"].reference, self.fate)
        if name == "lookup":
            held = self.ledger.get(known["reference"], [])
            seen = tuple(each.label for each in held if each.shows_at <= self.now)
            if self.fate in ("lost", "unreachable"):
                return Unknown("timeout")
            return Found(seen) if seen else Absent()
        return Voided()


class Protocol(RuleBasedStateMachine):
    """Processes claim, send, hear, freeze and die; the sweeper goes round; time passes."""

    rows = Bundle("rows")
    claimed = Bundle("claimed")
    answered = Bundle("answered")
    world: World

    def __init__(self) -> None:
        super().__init__()
        for model in (Hold, DocumentRow, Attempt, Announcement, Parcel, Account):
            model.objects.all().delete()
        self.world.__init__()  # type: ignore[misc] # the transport keeps a reference to it
        self.fences: dict[int, int] = {}
        self.ended: dict[int, str] = {}
        self.jobs: list[Job] = []

    @rule(target=rows, carrier=st.sampled_from(["postnl", "colibri", "lantern"]))
    def accept(self, carrier: str) -> int:
        return int(AnnouncementFactory.create(carrier=carrier, parcel__carrier=carrier).pk)

    @rule(target=claimed, row=rows)
    def claim(self, row: int) -> Job | None:
        job = prepare(row)
        if job is not None:
            self.jobs.append(job)
        return job

    @rule(target=answered, job=consumes(claimed), fate=FATES)
    def send(self, job: Job | None, fate: str) -> tuple[Job, Outcome] | None:
        if job is None:
            return None
        if not job.may_buy():
            return job, NotSent("send_forbidden")
        return job, self.world.buy(job.carrier, job.announcement.reference, fate)

    @rule(answer=consumes(answered))
    def hear(self, answer: tuple[Job, Outcome] | None) -> None:
        if answer is not None:
            job, outcome = answer
            leave(job, outcome, 0.1)
            finish(job, outcome, 0.1)

    @rule(job=consumes(claimed))
    def die_before_sending(self, job: Job | None) -> None:
        pass

    @rule(answer=consumes(answered))
    def die_with_the_answer(self, answer: tuple[Job, Outcome] | None) -> None:
        pass

    @rule(row=rows, fate=FATES)
    def deliver_a_message(self, row: int, fate: str) -> None:
        self.world.fate = fate
        announce(row)
        reconcile(row)

    @rule(fate=FATES)
    def sweep_once(self, fate: str) -> None:
        self.world.fate = fate
        sweep.end_leases()
        for due in list(sweep.due_announcements()):
            (announce if due.task == "announce" else reconcile)(due.id)

    @rule(seconds=st.sampled_from([0.5, 2.0, 6.0, 20.0, 80.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.now += seconds
        back = timedelta(seconds=seconds)
        Announcement.objects.update(**{name: F(name) - back for name in MOMENTS})
        Attempt.objects.update(sent_at=F("sent_at") - back)
        for job in self.jobs:
            job.guarded_at -= seconds

    @invariant()
    def nothing_is_bought_twice(self) -> None:
        for reference, bookings in self.world.ledger.items():
            assert len(bookings) <= 1, reference

    @invariant()
    def fences_only_rise_and_ends_are_ends(self) -> None:
        for pk, fence, state in Announcement.objects.values_list("pk", "fence", "state"):
            assert fence >= self.fences.get(pk, 0)
            self.fences[pk] = fence
            assert self.ended.get(pk, state) == state
            if state in (State.ANNOUNCED, State.FAILED):
                self.ended[pk] = state

    @invariant()
    def a_label_in_a_row_was_sold_under_its_reference(self) -> None:
        for row in Announcement.objects.filter(state=State.ANNOUNCED).select_related("parcel"):
            numbers = [each.label.tracking_number for each in self.world.ledger[row.reference]]
            assert row.parcel.tracking_number in numbers

    def teardown(self) -> None:
        """All carriers are well again: every row ends, or is parked; none lost what was bought."""
        for _ in range(12):
            self.pass_time(80.0)
            self.sweep_once("label")
        self.nothing_is_bought_twice()
        for row in Announcement.objects.all():
            assert row.state in (State.ANNOUNCED, State.FAILED, State.NEEDS_REVIEW), row
            if row.state == State.NEEDS_REVIEW:
                assert registry.carrier(row.carrier).repeats == "none"
            if row.state == State.FAILED:
                assert not self.world.ledger.get(row.reference)


@pytest.mark.timeout(240)
@pytest.mark.django_db
def test_any_order_of_things_buys_once_and_ends(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    # Both count real seconds, which don't pass here; they have tests of their own.
    settings.FAULT_GUARDS_OFF, settings.DEMO = ["breaker", "gate"], True
    settings.TIME_SCALE = 1
    protect.forget()
    world = World()
    monkeypatch.setattr(transport, "perform", world.perform)
    machine = type("Machine", (Protocol,), {"world": world})
    run_state_machine_as_test(
        machine,
        settings=hypothesis_settings(
            max_examples=25,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.django_db
@pytest.mark.parametrize(("guard", "caught"), [("unknown", True), ("", False)])
def test_the_machine_sees_a_missing_guard(
    guard: str, caught: bool, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """A lost answer, a naive retry: with the guard off one reference is bought twice."""
    settings.FAULT_GUARDS_OFF, settings.DEMO = [guard], True
    settings.TIME_SCALE = 1
    world = World()
    monkeypatch.setattr(transport, "perform", world.perform)
    protect.forget()
    machine = type("Machine", (Protocol,), {"world": world})()
    row = machine.accept("postnl")
    machine.deliver_a_message(row, "booked_lost")
    for _ in range(4):
        machine.pass_time(20.0)
        machine.sweep_once("label")
    if caught:
        with pytest.raises(AssertionError):
            machine.nothing_is_bought_twice()
    else:
        machine.nothing_is_bought_twice()
        assert Announcement.objects.get().state == State.ANNOUNCED
