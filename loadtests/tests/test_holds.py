import pytest

from loadtests.holds import quantile, rate_between


def test_the_rate_counts_what_came_between():
    moments = [0.5, 1.0, 1.5, 2.0, 2.5, 9.0]
    assert rate_between(moments, 1.0, 3.0) == 3 / 2


def test_nothing_in_between_is_no_rate():
    assert rate_between([0.5, 9.0], 1.0, 3.0) == 0


@pytest.mark.parametrize(("share", "value"), [(0.5, 51), (0.99, 100), (1.0, 100), (0.0, 1)])
def test_quantiles_of_a_hundred(share, value):
    assert quantile(range(1, 101), share) == value
