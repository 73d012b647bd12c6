import pytest

from loadtests.arrivals import (
    ArrivalsError,
    Burst,
    Closed,
    Constant,
    Ramp,
    from_mapping,
)


def test_a_constant_rate_is_evenly_spaced():
    assert list(Constant(rate=4, seconds=1).times()) == [0, 0.25, 0.5, 0.75]


def test_a_ramp_sends_the_area_under_its_rate():
    times = list(Ramp(from_rate=0, to_rate=20, seconds=10).times())
    assert len(times) == 100
    # The first half of the time has a quarter of the area.
    assert sum(at < 5 for at in times) == 25
    assert times == sorted(times)
    assert times[-1] < 10


def test_a_falling_ramp_sends_most_at_first():
    times = list(Ramp(from_rate=20, to_rate=0, seconds=10).times())
    assert sum(at < 5 for at in times) == 75


def test_a_ramp_without_slope_is_constant():
    assert list(Ramp(5, 5, 2).times()) == list(Constant(5, 2).times())


def test_a_burst_comes_at_once():
    assert list(Burst(size=2).times()) == [0, 0]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"kind": "closed", "connections": 2, "requests": 9}, Closed(2, 9)),
        (
            {"kind": "closed", "connections": 2, "requests": 9, "opening": 0},
            Closed(2, 9, opening=0),
        ),
        ({"kind": "constant", "rate": 1, "seconds": 2}, Constant(1, 2)),
        ({"kind": "burst", "size": 3}, Burst(3)),
    ],
)
def test_arrivals_are_described_in_plain_values(raw, expected):
    assert from_mapping(raw) == expected


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"kind": "sometimes"},
        {"kind": "constant", "rate": 1},
        {"kind": "constant", "rate": 0, "seconds": 1},
        {"kind": "constant", "rate": "5", "seconds": 1},
        {"kind": "constant", "rate": 1, "seconds": 1, "colour": 3},
        {"kind": "ramp", "from_rate": 0, "to_rate": 0, "seconds": 1},
    ],
)
def test_nonsense_is_refused(raw):
    with pytest.raises(ArrivalsError):
        from_mapping(raw)
