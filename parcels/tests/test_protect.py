"""Breaker and bulkhead in front of each call, counting in this process as when Redis is gone."""

import contextlib
import itertools
from collections.abc import Callable
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from carriers import recovery, registry, transport
from carriers.breaker_rules import BreakerState
from carriers.outcomes import (
    Absent,
    Announced,
    Answered,
    Document,
    NotSent,
    Throttled,
    Unknown,
    Voided,
)
from carriers.redis_guard import RedisGuard
from parcels.models import Announcement, Attempt, SpareLabel, SpareState, State
from parcels.services import carrier_guards, protect, spares
from parcels.services.announce import announce
from parcels.services.carrier_guards import guards_of
from parcels.services.reconcile import reconcile
from parcels.services.sweep import due_announcements
from parcels.tests.factories import PDF, AnnouncementFactory

pytestmark = pytest.mark.django_db
LABEL = Announced("c-1", "3S1", (Document("label", "pdf", PDF),))
TIMEOUT = Unknown("timeout")
NUMBERS = itertools.count(1)


class FakeCarrier:
    """Answers each call with the next of its answers, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[Any] = [LABEL]
        self.calls = 0

    def perform(self, steps: Any, *_: Any, **__: Any) -> Any:
        steps.close()
        self.calls += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def carrier(monkeypatch: pytest.MonkeyPatch) -> FakeCarrier:
    fake = FakeCarrier()
    monkeypatch.setattr(transport, "perform", fake.perform)
    return fake


def fail_often(carrier: FakeCarrier, times: int = 10) -> None:
    carrier.answers = [TIMEOUT]
    for _ in range(times):
        announce(AnnouncementFactory.create().pk)


def test_an_open_breaker_keeps_the_row_pending_and_the_carrier_uncalled(
    carrier: FakeCarrier, settings: Any
) -> None:
    fail_often(carrier)
    calls = carrier.calls
    waiting = AnnouncementFactory.create()
    announce(waiting.pk)
    waiting.refresh_from_db()
    assert carrier.calls == calls
    assert (waiting.state, waiting.tries, waiting.sent_at) == (State.PENDING, 0, None)
    assert not waiting.attempts.exists()


def test_a_backlog_sleeps_while_the_breaker_is_open_and_wakes_with_the_ramp(
    carrier: FakeCarrier,
) -> None:
    fail_often(carrier)
    Announcement.objects.all().delete()
    waiting = [AnnouncementFactory.create() for _ in range(5)]
    for row in waiting:
        announce(row.pk)
    assert list(due_announcements()) == []
    guards_of("postnl").local.breaker = BreakerState("closed", changed_at=monotonic(), ramping=True)
    # What the ramp's first second lets through: a bit over two. An UPDATE returns in any order.
    assert {due.id for due in due_announcements()} == {row.pk for row in waiting[:3]}


def test_an_open_breaker_keeps_an_unknown_unknown(carrier: FakeCarrier) -> None:
    fail_often(carrier)
    unknown = Announcement.objects.filter(state=State.UNKNOWN).first()
    assert unknown
    Announcement.objects.filter(pk=unknown.pk).update(run_at=timezone.now())
    reconcile(unknown.pk)
    unknown.refresh_from_db()
    assert (unknown.state, unknown.absences) == (State.UNKNOWN, 0)


def test_one_carrier_s_breaker_is_not_another_s(carrier: FakeCarrier) -> None:
    fail_often(carrier)
    carrier.answers = [LABEL]
    other = AnnouncementFactory.create(carrier="colibri", parcel__carrier="colibri")
    announce(other.pk)
    other.refresh_from_db()
    assert other.state == State.ANNOUNCED


def test_a_full_bulkhead_keeps_the_row_pending(carrier: FakeCarrier) -> None:
    guards = guards_of("postnl")
    slots = [slot for slot, _ in guards.enter([""] * guards.limit)]
    waiting = AnnouncementFactory.create()
    announce(waiting.pk)
    waiting.refresh_from_db()
    assert (waiting.state, carrier.calls) == (State.PENDING, 0)
    guards.leave(slots[:1])
    Announcement.objects.update(run_at=timezone.now())
    announce(waiting.pk)
    waiting.refresh_from_db()
    assert waiting.state == State.ANNOUNCED


@pytest.mark.parametrize("answer", [LABEL, TIMEOUT, NotSent("unreachable"), RuntimeError("a bug")])
def test_the_slot_is_given_back_however_the_call_ends(carrier: FakeCarrier, answer: Any) -> None:
    carrier.answers = [answer]
    with contextlib.suppress(RuntimeError):
        announce(AnnouncementFactory.create().pk)
    assert guards_of("postnl").in_flight() == 0


def test_a_reference_is_not_sent_again_unless_the_guard_lets_it(
    carrier: FakeCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = AnnouncementFactory.create(
        carrier="colibri", parcel__carrier="colibri", state=State.UNKNOWN, sent_at=timezone.now()
    )
    monkeypatch.setattr("parcels.services.claim.LEASE_SHARE", -1)
    reconcile(row.pk)
    Announcement.objects.update(run_at=timezone.now())
    monkeypatch.setattr("parcels.services.reconcile.guard", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        reconcile(row.pk)
    assert (carrier.calls, guards_of("colibri").in_flight()) == (0, 0)


def test_a_recovery_is_found_by_a_probe_that_buys_nothing(
    carrier: FakeCarrier, settings: Any
) -> None:
    settings.CARRIER_BREAKER_OPEN_FOR = 0.0
    carrier_guards.forget()
    fail_often(carrier)
    guards = guards_of("postnl")
    assert guards.mode() == "open"
    admission = recovery.admit(guards)
    assert admission.probe
    carrier.answers = [Answered()]
    carrier_guards.probe(guards, admission.probe)
    assert guards.mode() == "closed"
    assert carrier_guards.room("postnl") <= 3  # ramping from two a second, not the whole room
    assert Attempt.objects.filter(kind="announce").count() == 10


def test_an_open_carrier_has_no_room(carrier: FakeCarrier) -> None:
    assert carrier_guards.room("postnl") >= guards_of("postnl").limit
    fail_often(carrier)
    assert carrier_guards.room("postnl") == 0


def test_only_purchases_make_the_median(carrier: FakeCarrier) -> None:
    unknown = AnnouncementFactory.create(state=State.UNKNOWN, sent_at=timezone.now())
    carrier.answers = [Absent()]
    reconcile(unknown.pk)
    assert guards_of("postnl").recent().count == 0
    carrier.answers = [LABEL]
    announce(AnnouncementFactory.create().pk)
    assert guards_of("postnl").recent().count == 1


def test_voiding_a_spare_takes_a_slot_and_gives_it_back(
    carrier: FakeCarrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_flight: list[int] = []
    guards = guards_of("postnl")

    def perform(steps: Any, *_: Any, **__: Any) -> Voided:
        steps.close()
        in_flight.append(guards.in_flight())
        return Voided()

    monkeypatch.setattr(transport, "perform", perform)
    void_one()
    assert in_flight == [1]
    assert guards.in_flight() == 0
    assert Attempt.objects.get(kind="void").outcome == "voided"


def test_a_spare_is_voided_when_there_is_room(carrier: FakeCarrier) -> None:
    guards = guards_of("postnl")
    slots = [slot for slot, _ in guards.enter([""] * guards.limit)]
    spare = void_one()
    assert (carrier.calls, spare.state, spare.tries) == (0, SpareState.OPEN, 0)
    guards.leave(slots[:1])
    carrier.answers = [Voided()]
    spares.settle_spare(spare.pk)
    spare.refresh_from_db()
    assert (carrier.calls, spare.state) == (1, SpareState.GONE)


def void_one() -> SpareLabel:
    spare = SpareLabel.objects.create(
        announcement=AnnouncementFactory.create(state=State.ANNOUNCED),
        carrier_id="c-2",
        tracking_number="3S2",
        source="lookup",
    )
    spares.settle_spare(spare.pk)
    spare.refresh_from_db()
    return spare


def a_call(account: int = 1, *, key: str = "") -> Any:
    """Return what the guards need of a job."""
    row = SimpleNamespace(
        pk=next(NUMBERS), account_id=account, reference=key, state=State.ANNOUNCING
    )
    return SimpleNamespace(carrier=registry.CARRIERS["postnl"], announcement=row, slot="")


def is_refused() -> bool:
    return bool(protect.enter([a_call()]))


def call(outcome: Any, *, key: str = "", duration: float = 0.0) -> None:
    """Make one call through the guards."""
    made = a_call(key=key)
    assert not protect.enter([made])
    protect.leave([(made, outcome, duration)])


@pytest.mark.parametrize("answer", [Throttled(30.0, True), Unknown("throttled")])
def test_a_429_closes_the_gate_and_holds_clients_all_the_same(answer: Any) -> None:
    call(answer)
    (refused,) = protect.enter([a_call()]).values()
    assert refused.reason == "breaker_open"
    assert refused.retry_after > 0.9
    assert guards_of("postnl").in_flight() == 0  # its slot was given back
    assert not protect.carriers_out()
    assert carrier_guards.room("postnl") <= 1
    assert guards_of("postnl").recent().count == 0


def test_the_sweeper_probes_only_carriers_that_are_out(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CARRIER_BREAKER_OPEN_FOR = 0.0
    carrier_guards.forget()
    probed: list[str] = []
    monkeypatch.setattr(
        carrier_guards, "probe_aside", lambda guards, _: probed.append(guards.carrier)
    )
    carrier_guards.tend_breakers()
    assert probed == []
    for _ in range(10):
        call(TIMEOUT)
    carrier_guards.tend_breakers()
    assert probed == ["postnl"]


def test_without_redis_a_process_that_turns_clients_away_probes(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CARRIER_BREAKER_OPEN_FOR = 0.0
    carrier_guards.forget()
    monkeypatch.setattr(protect, "BELIEVED", 0.0)
    monkeypatch.setattr(carrier_guards, "probe_aside", carrier_guards.probe)
    monkeypatch.setattr(transport, "perform", lambda *_: Answered())
    for _ in range(10):
        call(TIMEOUT)
    assert protect.carriers_out() == {"postnl"}
    assert not protect.carriers_out()


def test_all_breakers_are_one_question_and_are_believed_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask, asked = RedisGuard.ask, []

    def count(*given: Any) -> Any:
        asked.append(given)
        return ask(*given)

    monkeypatch.setattr(RedisGuard, "ask", count)
    monkeypatch.setattr(protect, "tend_breakers", list)
    for _ in range(10):
        call(TIMEOUT)
    asked.clear()
    assert [protect.carriers_out() for _ in range(3)] == [{"postnl"}] * 3
    assert len(asked) == 1


def entered() -> Any:
    """Wait for the gate's next trial call, in these tests a millisecond."""
    entering = a_call()
    while protect.enter([entering]):
        continue
    return entering


def test_a_gate_opens_with_a_ramp(settings: Any) -> None:
    settings.TIME_SCALE = 0.001
    carrier_guards.forget()
    call(Throttled(None, True))
    protect.leave([(entered(), LABEL, 0.0)])
    assert carrier_guards.room("postnl") <= 3


@pytest.mark.parametrize("turn", [1, -1])
def test_a_429_beside_a_success_keeps_the_gate_closed(settings: Any, turn: int) -> None:
    settings.TIME_SCALE = 0.001
    carrier_guards.forget()
    call(Throttled(None, True))
    calls = [(entered(), each, 0.0) for each in (LABEL, Throttled(30.0, True))]
    protect.leave(calls[::turn])
    assert is_refused()


def test_one_poisoned_announcement_does_not_open_the_breaker() -> None:
    for _ in range(20):
        call(TIMEOUT, key="P1")
    assert not protect.carriers_out()
    for number in range(9):
        call(TIMEOUT, key=f"Q{number}")
    assert guards_of("postnl").mode() == "open"


def test_a_permission_without_a_call_says_nothing_of_the_carrier() -> None:
    for outcome in [None, None, TIMEOUT] * 10:
        call(outcome)
    assert guards_of("postnl").mode() == "open"


@pytest.mark.parametrize(
    ("median", "seconds", "out"),
    [(None, 5, 5), (0.2, 1, 5), (2.5, 3, 5), (7.0, 7, 7), (99.0, 60, 60)],
)
def test_a_client_is_told_to_look_again_after_the_recent_median(
    median: float | None, seconds: int, out: int, settings: Any
) -> None:
    parcel = AnnouncementFactory.create().parcel
    if median is not None:
        guards_of("postnl").leave(bought=[(median, True)])
    assert protect.retry_after([parcel]) == seconds
    carrier_guards.forget()
    for _ in range(10):
        guards_of("postnl").leave(outcomes=[(True, 0.0, "")])
    if median is not None:
        guards_of("postnl").leave(bought=[(median, True)])
    assert protect.retry_after([parcel]) == out


def opens() -> bool:
    for _ in range(10):
        call(TIMEOUT)
    return guards_of("postnl").mode() == "open"


def ramps() -> bool:
    guards = guards_of("postnl")
    guards.local.breaker = BreakerState("closed", changed_at=monotonic(), ramping=True)
    return not all(recovery.admit(guards).allowed for _ in range(5))


def is_bounded() -> bool:
    over = int(django_settings.CARRIERS["postnl"]["bulkhead"]) + 1
    return not all(slot for slot, _ in guards_of("postnl").enter([""] * over))


def is_gated() -> bool:
    call(Throttled(30.0, True))
    return is_refused()


def is_shared() -> bool:
    """Tell whether an account that takes all it can leaves another one a slot."""
    limit = int(django_settings.CARRIERS["postnl"]["bulkhead"])
    refused = protect.enter([a_call(1) for _ in range(limit)])
    assert limit - len(refused) >= 0.8 * limit  # it is alone: most of the room is its own
    return not protect.enter([a_call(2)])


GUARDS = {
    "breaker": opens,
    "ramp": ramps,
    "bulkhead": is_bounded,
    "gate": is_gated,
    "turns": is_shared,
}


@pytest.mark.parametrize("off", ["", *GUARDS])
@pytest.mark.parametrize("asked", GUARDS)
def test_each_guard_has_a_switch_of_its_own(
    without: Callable[..., None], off: str, asked: str
) -> None:
    without(off)
    assert GUARDS[asked]() is (asked != off)
