"""A carrier's slots, breaker and recent calls against a real Redis, and while it is gone."""

import os
import signal
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from redis.backoff import NoBackoff
from redis.retry import Retry

from carriers import breaker_rules as rules
from carriers import recovery
from carriers.breaker_rules import BreakerConfig, BreakerState
from carriers.guards import CarrierGuards, modes
from carriers.guards_local import LOCAL
from carriers.redis_guard import Gone, RedisGuard

pytestmark = pytest.mark.integration

# Seconds: what the application uses, too.
SOCKET_TIMEOUT = 0.25


@pytest.fixture
def client(redis_server):
    with client_of(redis_server) as client:
        yield client


def client_of(server):
    return redis.Redis.from_url(
        server.url,
        socket_timeout=SOCKET_TIMEOUT,
        socket_connect_timeout=SOCKET_TIMEOUT,
        retry=Retry(NoBackoff(), 0),
    )


@pytest.fixture
def gone():
    """A client of a Redis that refuses."""
    with redis.Redis(port=1, socket_timeout=0.25, retry=Retry(NoBackoff(), 0)) as client:
        yield client


def guards(client, name=None, **options):
    asked = client if isinstance(client, RedisGuard) else RedisGuard(client, "guards")
    options = {"limit": 10_000, "lease": 30.0, **options}
    return CarrierGuards(asked, name or uuid.uuid4().hex, **options)


def admit_one(shared, now=None):
    """Ask for one call, as one is asked for before it is made."""
    ((slot, admission),) = shared.enter([""], now)
    assert bool(slot) == admission.allowed
    return admission


def acquire(shared, owner="", now=None):
    return shared.enter([owner], now)[0][0]


def record(shared, *, failed, lasted=0.0, key="", now=None):
    shared.leave(outcomes=[(failed, lasted, key)], now=now)


# Steps that are exact in binary and in the six decimals that the scripts keep, and that land on the
# limits below as well as beside them: most mistakes are made at a limit.
MODES = ["burst", "burst", "fail", "fail", "ok", "late", "alive", "dead", "stranger"]
GATES = ["throttled", "asked", "same", "same", "slow"]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 0.0, 0.125, 0.5, 1.0, 4.0, 8.0, 16.0]),
        st.sampled_from(MODES + GATES),
    ),
    min_size=40,
    max_size=120,
)
LASTED = 0.25  # seconds: a call that failed late, perhaps one from before the recovery
OPENED = [(0.0, "fail"), (0.0, "fail"), (4.0, "burst")]  # and its probe claimed
LIMITS = BreakerConfig(
    min_calls=2,
    window=4,
    horizon=8.0,
    open_for=4.0,
    ramp_for=8.0,
    ramp_from=0.25,
    ramp_to=4.0,
    trial_every=0.5,
)
# event → (failed, seconds that the call lasted, key)
CALLS = {
    "fail": (True, 0.0, ""),
    "ok": (False, 0.0, ""),
    "late": (True, LASTED, ""),
    "same": (True, 0.0, "one"),
    "slow": (False, LASTED, "one"),
}
# event → seconds that a 429 asks for
THROTTLES = {"throttled": 0.0, "asked": 4.0}


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(EVENTS)
@example([(0.0, "ok")] * 9 + [(0.0, "fail"), (0.0, "fail"), (0.0, "burst")])  # the window's length
@example(OPENED + [(0.0, "alive")] + [(1.0, "burst")] * 12)  # a ramp from end to end
@example([*OPENED, (0.0, "alive"), (0.0, "fail"), (0.0, "burst")])  # forgets what opened it
@example([(0.0, "asked"), (4.0, "burst"), (0.5, "burst"), (0.0, "ok")] + [(1.0, "burst")] * 12)
@example([(0.0, "throttled"), (0.125, "slow"), (0.0, "burst"), (1.0, "burst")])  # from before it
@example([(0.0, "asked"), (0.0, "fail"), (0.0, "fail"), (0.0, "burst"), (4.0, "burst")])  # and open
@example(
    [(0.0, "same"), (0.0, "same"), (0.0, "burst"), (8.0, "same"), (0.0, "fail"), (0.0, "burst")]
)
@example([*OPENED, (0.0, "alive"), (0.125, "late"), (0.0, "late"), (0.0, "burst")])  # not its call
def test_the_scripts_do_what_the_pure_rules_say(client, events):
    config = LIMITS
    shared = guards(client, config=config)
    state, now, claim = BreakerState(), 1_790_000_000.0, ""
    for passed, event in events:
        now += passed
        if event == "burst":
            for _ in range(4):
                given_ = admit_one(shared, now)
                expected, state = rules.admit(state, now, given_.probe or "claimed", config)
                assert given_.allowed == expected.allowed
                assert bool(given_.probe) == bool(expected.probe)
                assert given_.retry_after == pytest.approx(expected.retry_after, abs=1e-4)
                claim = given_.probe or claim
        elif event in CALLS:
            failed, lasted, key = CALLS[event]
            record(shared, failed=failed, lasted=lasted, key=key, now=now)
            state = rules.record(state, now, failed, config, lasted, key=key)
        elif event in THROTTLES:
            shared.leave(throttled=[THROTTLES[event]], now=now)
            state = rules.throttle(state, now, THROTTLES[event], config)
        else:
            token = "stranger" if event == "stranger" else claim
            recovery.record_probe(shared, token, alive=event == "alive", now=now)
            state = rules.record_probe(state, now, token, event == "alive")
        assert shared.mode() == state.mode


def test_all_processes_know_that_the_gate_is_closed(client):
    """Two objects stand for two processes: they share nothing but Redis."""
    name = uuid.uuid4().hex
    one, other = guards(client, name), guards(client, name)
    one.leave(throttled=[30.0, 10.0])
    refused = admit_one(other)
    assert not refused.allowed
    assert 25 < refused.retry_after <= 30
    assert (other.mode(), recovery.pace(other)) == ("closed", 0.0)
    one = guards(client)
    one.leave(throttled=[0.0])
    assert recovery.pace(one) == 1.0


def test_exactly_one_of_many_callers_is_told_to_probe(client):
    shared = guards(client)
    shared.leave(outcomes=[(True, 0.0, "")] * 10, now=1000.0)
    ways = [admit_one, recovery.admit] * 100
    with ThreadPoolExecutor(20) as pool:
        admissions = list(pool.map(lambda ask: ask(shared, 1006.0), ways))
    assert sum(bool(admission.probe) for admission in admissions) == 1
    assert not any(admission.allowed for admission in admissions)


def test_redis_own_clock_is_used_where_none_is_given(client):
    shared = guards(client, config=BreakerConfig(open_for=30.0))
    for _ in range(10):
        record(shared, failed=True)
    assert shared.mode() == "open"
    assert 25 < admit_one(shared).retry_after <= 30
    assert 25 < recovery.admit(shared).retry_after <= 30


def test_two_carriers_have_two_breakers(client):
    sick, well = guards(client), guards(client)
    for _ in range(10):
        record(sick, failed=True)
    assert modes([well, sick]) == ["closed", "open"]
    assert admit_one(well).allowed


def test_what_the_breaker_refuses_keeps_no_slot(client, gone):
    for shared in (guards(client), guards(gone)):
        shared.leave(throttled=[30.0])
        assert [slot for slot, _ in shared.enter(["1", "", "2"])] == ["", "", ""]
        assert shared.in_flight() == 0


def test_a_429_beside_a_success_keeps_the_gate_closed(client, gone):
    for shared in (guards(client), guards(gone)):
        shared.leave(throttled=[0.0])
        shared.leave(outcomes=[(False, 0.0, "")], throttled=[30.0])
        assert not admit_one(shared).allowed


def test_without_redis_the_breaker_starts_closed_and_works_by_process(gone):
    alone = guards(gone)
    assert admit_one(alone).allowed
    for _ in range(10):
        record(alone, failed=True)
    assert alone.mode() == "open"
    assert not admit_one(alone).allowed
    assert recovery.pace(alone) == 0.0
    recovery.record_probe(alone, "stranger", alive=True)
    assert alone.mode() == "open"
    alone.redis.ask = lambda _: ([None], [])
    alone.enter([""])
    del alone.redis.ask
    assert alone.mode() == "closed"  # Redis was back meanwhile


def test_a_bulkhead_holds_over_processes(client):
    """Two objects stand for two processes: they share nothing but Redis."""
    name = uuid.uuid4().hex
    one, other = guards(client, name, limit=3), guards(client, name, limit=3)
    tokens = [acquire(one), acquire(other), acquire(one)]
    assert all(tokens)
    assert other.enter([""]) == [("", None)]
    assert one.in_flight() == 3
    other.leave(tokens[:1])
    assert acquire(other)


@pytest.mark.parametrize(("owners", "each"), [(1, 32), (2, 17), (3, 12)])
def test_owners_that_take_all_they_can_leave_a_newcomer_a_slot(client, gone, owners, each):
    for shared in (guards(client, limit=40), guards(gone, limit=40)):
        taken = [str(number) for _ in range(40) for number in range(owners)]
        tokens = [owner for owner in taken if acquire(shared, owner)]
        assert all(each <= tokens.count(str(number)) <= each + 1 for number in range(owners))
        assert acquire(shared, "newcomer")
        while acquire(shared):  # what is nobody's may take the rest
            pass
        assert shared.in_flight() == 40


def test_an_owner_is_not_taken_for_another_whose_name_begins_alike(client):
    shared = guards(client, limit=20)
    while acquire(shared, "12"):
        pass
    assert acquire(shared, "1")


def test_a_small_bulkhead_is_its_only_owners_own(client):
    shared = guards(client, limit=4)
    assert all(acquire(shared, "1") for _ in range(4))


def test_a_bulkhead_is_never_overrun(redis_server):
    # Patient: a time-out on a busy machine would be a Redis that is gone, and slots of our own.
    client = redis.Redis.from_url(redis_server.url, socket_timeout=30)
    shared = guards(client, limit=5)
    inside, most, lock = 0, 0, threading.Lock()

    def visit(_):
        nonlocal inside, most
        tokens = [token for token, _ in shared.enter(["", ""]) if token]
        with lock:
            inside += len(tokens)
            most = max(most, inside)
        time.sleep(0.002)
        with lock:
            inside -= len(tokens)
        shared.leave(tokens)
        return len(tokens)

    with ThreadPoolExecutor(16) as pool:
        visits = sum(pool.map(visit, range(150)))
    assert 1 < most <= 5
    assert visits > 5
    assert shared.in_flight() == 0
    client.close()


def ask(shared, number, owner="1", *, now=None):
    """Ask for an announcement's slot, for which it waits if there is none."""
    return shared.enter([owner], now, places=[f"announce:{number}"])[0][0]


def test_announcements_get_their_slots_in_their_order(client):
    called: list[bytes] = []
    shared = guards(client, limit=2, on_turn=called.extend)
    first, second = ask(shared, 1), ask(shared, 2)
    assert not any(ask(shared, number) for number in (4, 10, 3, 4))
    shared.leave([first])
    assert called == [b"1.announce:3"]
    assert not ask(shared, 11)  # it has just come
    assert not ask(shared, 4)  # it happens to ask again
    third = ask(shared, 3)
    assert third
    shared.leave([second, third])
    assert called[1:] == [b"1.announce:4", b"1.announce:10"]
    assert ask(shared, 10)
    assert ask(shared, 4)
    assert shared.in_flight() == 2


def test_one_that_does_not_come_loses_its_turn(client):
    called: list[bytes] = []
    shared = guards(client, limit=1, kept=2.0, on_turn=called.extend)
    slot = ask(shared, 1, now=1000.0)
    assert not ask(shared, 2, now=1000.0)
    assert not ask(shared, 3, now=1000.0)
    shared.leave([slot], now=1001.0)
    assert not ask(shared, 4, now=1002.9)
    assert not ask(shared, 5, now=1003.1)  # an older one still waits, and is called
    assert called == [b"1.announce:2", b"1.announce:3"]
    assert ask(shared, 3, now=1003.2)


def test_a_late_one_is_first_again(client):
    shared = guards(client, limit=1, kept=2.0)
    slot = ask(shared, 1, now=1000.0)
    assert not ask(shared, 2, now=1000.0)
    shared.leave([slot], now=1001.0)
    assert not ask(shared, 3, now=1001.0)
    assert ask(shared, 2, now=1010.0)


def test_a_late_one_does_not_get_a_slot_that_another_account_took(client):
    shared = guards(client, limit=1, kept=2.0)
    slot = ask(shared, 1, now=1000.0)
    assert not ask(shared, 2, now=1000.0)
    shared.leave([slot], now=1001.0)
    assert ask(shared, 3, "2", now=1003.1)
    assert not ask(shared, 2, now=1003.2)
    assert shared.in_flight() == 1


def test_an_account_that_waits_keeps_no_other_waiting(client):
    shared = guards(client, limit=10)
    while ask(shared, shared.in_flight() + 1):
        pass
    assert ask(shared, 99, "2")
    assert acquire(shared, "2")  # nor what doesn't wait for a slot


def test_those_that_come_together_get_slots_in_their_order(client):
    called: list[bytes] = []
    shared = guards(client, limit=2, on_turn=called.extend)
    places = [f"announce:{number}" for number in (1, 2, 3)]
    entries = shared.enter(["1"] * 3, places=places)
    assert [bool(slot) for slot, _ in entries] == [True, True, False]
    assert called == []
    shared.leave([slot for slot, _ in entries[:2]])
    entries = shared.enter(["1"] * 3, places=["announce:4", "announce:3", "announce:5"])
    assert [bool(slot) for slot, _ in entries] == [True, True, False]


def test_what_the_breaker_refuses_keeps_no_slot_of_an_owner(client):
    shared = guards(client, limit=1)
    shared.leave(throttled=[30.0])
    slot, admission = shared.enter(["1"], places=["announce:1"])[0]
    assert (slot, admission.allowed, shared.in_flight()) == ("", False, 0)
    client.delete(*shared.breaker_keys)
    assert ask(shared, 2)


def test_the_slots_of_a_killed_process_come_back_after_the_lease(client):
    shared = guards(client, limit=1, lease=30.0)
    assert acquire(shared, now=1000.0)
    assert not acquire(shared, now=1029.0)
    assert acquire(shared, now=1031.0)


def test_slots_are_taken_in_order_and_given_back_together(client, gone):
    for shared in (guards(client, limit=8), guards(gone, limit=8)):
        tokens = [token for token, _ in shared.enter(["1"] * 8 + ["2"])]
        assert [bool(token) for token in tokens] == [True] * 7 + [False, True]
        shared.leave([*filter(None, tokens)])
        assert shared.in_flight() == 0


def test_without_redis_a_bulkhead_holds_by_process(gone):
    alone = guards(gone, limit=2)
    tokens = [acquire(alone), acquire(alone)]
    assert not acquire(alone)
    assert alone.in_flight() == 2
    alone.leave([tokens[0]])
    assert acquire(alone)


def test_health_sums_up_the_last_200_calls(client):
    shared = guards(client)
    for _ in range(50):
        shared.leave(bought=[(99.0, False)])  # pushed out by what follows
    shared.leave(bought=[(number / 100, number % 10 != 0) for number in range(1, 151)])
    shared.leave(bought=[(number / 100, number % 10 != 0) for number in range(151, 201)])
    seen = shared.recent()
    assert (seen.count, seen.p50, seen.p95) == (200, 1.0, 1.9)
    assert seen.error_share == pytest.approx(0.1)
    shared.leave(bought=[(99.0, True)] * 200)
    assert shared.recent(age=60).p50 == 1.0  # as it was a moment ago
    assert shared.recent().p50 == 99.0


def test_health_without_calls_and_without_redis(client, gone):
    nobody = guards(client).recent()
    assert (nobody.count, nobody.p50, nobody.error_share) == (0, None, 0.0)
    alone = guards(gone)
    alone.leave(bought=[(2.5, True)])
    assert alone.recent().p50 == 2.5


def test_a_redis_that_swallows_everything_costs_one_caller_a_second(redis_server_of_my_own):
    troubles: list[str] = []
    with client_of(redis_server_of_my_own) as client:
        guard = RedisGuard(client, "bulkhead", on_trouble=troubles.append)
        shared = guards(guard, "x")
        assert acquire(shared)
        os.kill(redis_pid(client), signal.SIGSTOP)
        started = time.monotonic()
        calls = 0
        while time.monotonic() - started < 3.0:
            token = acquire(shared)
            assert token
            shared.leave([token])
            calls += 1
        # One time-out at once, and then one per second at most.
        assert 1 <= len(troubles) <= 4
        assert calls > 500


def test_slots_that_a_paused_redis_kept_go_back_with_the_next_question(redis_server_of_my_own):
    now = [0.0]
    with client_of(redis_server_of_my_own) as client:
        guard = RedisGuard(client, "bulkhead", clock=lambda: now[0])
        shared = guards(guard, "x", limit=3)
        kept, pid = [acquire(shared), acquire(shared)], redis_pid(client)
        os.kill(pid, signal.SIGSTOP)
        for token in kept:
            shared.leave([token])  # the first is lost by a time-out, the second not asked
        now[0] = 1.1
        assert acquire(shared).startswith("local:")  # asked, and carried out when it wakes
        assert acquire(shared).startswith("local:")
        os.kill(pid, signal.SIGCONT)
        now[0] = 2.2
        shared.leave(["another's"])
        assert client.zcard("carriers:bulkhead:x") == 0
        assert not shared.local.owed


def test_an_acquire_settles_what_is_owed(client):
    guard = RedisGuard(client, "bulkhead", clock=lambda: now[0])
    now = [0.0]
    shared = guards(guard, limit=1)
    token = acquire(shared)
    guard._note(redis.ConnectionError())
    shared.leave([token])
    now[0] = 1.1
    assert not (acquire(shared) or LOCAL).startswith(LOCAL)


def test_a_slot_that_was_asked_for_without_an_answer_is_owed(gone):
    alone = guards(RedisGuard(gone, "guards", clock=lambda: 0.0), limit=3)
    asked, not_asked = acquire(alone), acquire(alone)
    assert [*alone.local.owed] == [asked.removeprefix(LOCAL)]
    assert not_asked.startswith(LOCAL)


def test_what_is_owed_is_forgotten_with_its_lease(gone):
    alone = guards(gone, limit=3, lease=0.0)
    for _ in range(5):
        alone.leave([uuid.uuid4().hex])
    assert len(alone.local.owed) <= 1


def test_the_guard_notices_that_redis_is_back(client):
    now = [0.0]
    guard = RedisGuard(client, "test", clock=lambda: now[0])
    shared = guards(guard, limit=5)
    guard._note(redis.ConnectionError())
    assert acquire(shared).startswith("local:")
    now[0] = 1.1
    assert not (acquire(shared) or "local:").startswith("local:")


def test_one_caller_at_a_time_asks_a_redis_that_was_gone(gone):
    now = [0.0]
    guard = RedisGuard(gone, "test", clock=lambda: now[0])
    guard._note(redis.ConnectionError())
    now[0] = 1.1

    def question():
        with pytest.raises(Gone):
            guard.ask(lambda: "a second caller")
        return "an answer"

    assert guard.ask(question) == "an answer"


def test_a_redis_that_is_full_gets_its_slots_back(redis_server_of_my_own):
    """It refuses what could need memory, unless the script has written before."""
    troubles: list[str] = []
    with client_of(redis_server_of_my_own) as client:
        guard = RedisGuard(client, "guards", on_trouble=troubles.append)
        shared = guards(guard, "x", limit=2)
        client.config_set("maxmemory", 1)
        for _ in range(3):
            slots = [acquire(shared), acquire(shared)]
            assert all(slot and not slot.startswith(LOCAL) for slot in slots)
            shared.leave(slots, outcomes=[(True, 1.0, "")], bought=[(1.0, False)], throttled=[0.0])
            assert shared.in_flight() == 0
            client.delete(*shared.breaker_keys)
        assert troubles == []


PIDS: dict[str, int] = {}


def redis_pid(client):
    return PIDS.setdefault("own", client.info("server")["process_id"])


@pytest.fixture
def redis_server_of_my_own():
    from deploy.tests.redis_server import RedisServer

    with RedisServer() as server:
        try:
            yield server
        finally:
            if "own" in PIDS:
                os.kill(PIDS.pop("own"), signal.SIGCONT)  # a stopped process can't end
