import statistics
import subprocess
import sys

import pytest

from carriers.simulator.latency import Latency, fixed, parse

COLIBRI = Latency(0.4, 1.5)


def test_a_fixed_latency_is_the_same_for_all():
    assert {fixed(10).seconds(1, "tortoise", str(n)) for n in range(100)} == {10}


def test_the_same_call_takes_as_long_in_every_process():
    here = COLIBRI.seconds(3, "colibri", "r1")
    code = (
        "from carriers.simulator.latency import Latency;"
        "print(Latency(0.4, 1.5).seconds(3, 'colibri', 'r1'))"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert float(there.stdout) == here


def test_seed_carrier_and_reference_each_change_it():
    first = COLIBRI.seconds(1, "colibri", "r1")
    assert first != COLIBRI.seconds(2, "colibri", "r1")
    assert first != COLIBRI.seconds(1, "lantern", "r1")
    assert first != COLIBRI.seconds(1, "colibri", "r2")


def test_its_p50_and_p95_are_those_that_were_asked_for():
    times = [COLIBRI.seconds(1, "colibri", str(n)) for n in range(20_000)]
    percentiles = statistics.quantiles(times, n=100)
    assert percentiles[49] == pytest.approx(0.4, rel=0.05)
    assert percentiles[94] == pytest.approx(1.5, rel=0.05)


def test_both_forms_are_read():
    assert parse("10") == fixed(10)
    assert parse(" p50:0.4, p95:1.5") == COLIBRI


@pytest.mark.parametrize("text", ["", "ten", "nan", "inf", "-1", "3601", "p50:0,p95:1", "p95:1"])
def test_nonsense_is_refused(text):
    with pytest.raises(ValueError, match=r"needs|neither"):
        parse(text)
