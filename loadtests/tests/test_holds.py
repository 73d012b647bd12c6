from loadtests.holds import rate_between


def test_the_rate_counts_what_came_between():
    moments = [0.5, 1.0, 1.5, 2.0, 2.5, 9.0]
    assert rate_between(moments, 1.0, 3.0) == 3 / 2


def test_nothing_in_between_is_no_rate():
    assert rate_between([0.5, 9.0], 1.0, 3.0) == 0
