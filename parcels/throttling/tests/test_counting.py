"""Windows in a real Redis: exact over threads, several at once, open without Redis."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from parcels import metrics
from parcels.throttling.counting import Windows
from parcels.throttling.limits import Limit

pytestmark = pytest.mark.integration
HOUR = Limit(100, 3600)


@pytest.fixture
def windows(redis_server: Any) -> Windows:
    client = redis.Redis.from_url(redis_server.url)
    for key in client.scan_iter("throttle:{test*"):
        client.delete(key)
    return Windows(client)


def passed(windows: Windows, name: str, limits: tuple[Limit, ...], times: int) -> int:
    return sum(windows.wait(name, limits) == 0 for _ in range(times))


def test_exactly_the_limit_passes_over_many_threads(windows: Windows) -> None:
    with ThreadPoolExecutor(16) as pool:
        waits = list(pool.map(lambda _: windows.wait("test1", (HOUR,)), range(300)))
    assert waits.count(0) == 100
    assert all(0 < wait <= 7200 for wait in waits if wait)


def test_a_name_has_its_own_windows(windows: Windows) -> None:
    assert passed(windows, "test1", (HOUR,), 101) == 100
    assert passed(windows, "test2", (HOUR,), 101) == 100


def test_a_request_counts_in_all_windows_or_in_none(windows: Windows) -> None:
    """Whoever is stopped by the burst loses nothing of its minute."""
    burst = Limit(5, 1800)
    assert passed(windows, "test3", (HOUR, burst), 50) == 5
    assert passed(windows, "test3", (HOUR,), 200) == 95


def test_a_charge_counts_over_the_limit_and_keeps_later_ones_waiting(windows: Windows) -> None:
    limits = (Limit(10, 1800),)
    assert windows.wait("test7", limits) == 0
    windows.wait("test7", limits, charge=99)
    assert passed(windows, "test7", limits, 5) == 0
    # Ten windows' worth of requests: this window, and most of the next.
    assert windows.wait("test7", limits) > 1800 * 0.85


def test_what_is_given_back_may_be_asked_for_again(windows: Windows) -> None:
    burst = Limit(5, 1800)
    for _ in range(20):
        assert windows.wait("test8", (HOUR, burst)) == 0
        windows.give_back("test8", (HOUR, burst))
    assert passed(windows, "test8", (HOUR, burst), 10) == 5


def test_after_the_wait_a_request_passes(windows: Windows) -> None:
    limits = (Limit(3, 1),)
    for _ in range(50):
        wait = windows.wait("test4", limits)
        if wait:
            break
    assert 0 < wait <= 2
    time.sleep(wait + 0.01)
    assert windows.wait("test4", limits) == 0


def test_no_more_than_the_limit_slides_through_any_window(windows: Windows) -> None:
    limits, moments = (Limit(20, 1),), []
    end = time.monotonic() + 3
    while time.monotonic() < end:
        if not windows.wait("test5", limits):
            moments.append(time.monotonic())
        time.sleep(0.002)
    busiest = max(sum(start <= m < start + 1 for m in moments) for start in moments)
    # The estimate takes the last window as evenly filled: off by a half at the worst, never twice.
    assert busiest <= 30
    assert len(moments) >= 40


def test_without_redis_everybody_passes_and_it_is_counted() -> None:
    away = Windows(redis.Redis(port=1, socket_connect_timeout=0.1))
    before = metrics.THROTTLE_TROUBLE.labels("throttle")._value.get()
    assert passed(away, "test6", (Limit(1, 60),), 10) == 10
    assert metrics.THROTTLE_TROUBLE.labels("throttle")._value.get() > before
