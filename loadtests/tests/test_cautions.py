"""What a reader is told before the figures: each limit from both of its sides."""

import pytest

from loadtests.aggregate import groups
from loadtests.cautions import FULL, QUIET, cautions
from loadtests.tests.bench_results import HELD, missing, results, run


def said_of(*runs, note=""):
    found = results(*runs, note=note)
    return cautions([found], groups([found]))


def twice(**options):
    """Two repeats: what is said of a single run is another matter."""
    return [run("a", HELD, 2.0, repeat=repeat, **options) for repeat in (1, 2)]


def test_figures_of_two_commits_are_said_to_be():
    one, other = results(*twice()), results(*twice())
    assert not any("commit" in each for each in cautions([one, other], groups([one, other])))
    other["machine"] = other["machine"] | {"commit": "abd"}
    said = cautions([one, other], groups([one, other]))
    assert "Not of one commit: abc, abd. Compare within one." in said


def working(cores, others=0.0):
    made = twice(others=others)
    for one in made:
        one["timeline"] = [row | {"cpu": {"web": cores}} for row in one["timeline"]]
    return made


@pytest.mark.parametrize(("others", "disturbed"), [(QUIET, False), (QUIET + 0.01, True)])
def test_a_fifth_of_a_core_is_quiet_and_more_is_not(others, disturbed):
    made = twice(others=others)
    for one in made:
        del one["timeline"][4:]  # two looks in the phase: their mean is exact
    said = said_of(*made)
    assert (["in 2 runs" in one for one in said] == [True]) == disturbed
    assert pytest.approx(0.2) == QUIET


def test_of_those_who_disturbed_the_worst_is_told():
    said, *_ = said_of(*twice(others=0.5), *twice(others=1.4), *twice())
    assert "in 4 runs other processes used up to 1.4 cores" in said


@pytest.mark.parametrize(("cores", "full"), [(2 * FULL, False), (2 * FULL + 0.01, True)])
def test_nine_tenths_of_two_cores_are_not_full_and_more_are(cores, full):
    assert any("2 of talk" in one for one in said_of(*working(cores))) == full
    assert pytest.approx(0.9) == FULL


def test_a_machine_is_full_of_ours_and_of_others_together():
    said = said_of(*working(1.0, others=0.85))
    assert any("processors were full" in one for one in said)


def test_full_is_what_the_median_second_was():
    made = working(0.5)
    for one in made:  # of the phase are the last three looks
        one["timeline"][:3] = [row | {"cpu": {"web": 2.0}} for row in one["timeline"][:3]]
    assert said_of(*made) == []
    for one in made:
        one["timeline"][:4] = [row | {"cpu": {"web": 2.0}} for row in one["timeline"][:4]]
    assert len(said_of(*made)) == 1


def test_one_run_alone_is_no_range_and_two_are():
    assert any("n = 1" in one for one in said_of(run("a", HELD, 2.0)))
    assert said_of(*twice()) == []
    lacking = run("b", HELD, 2.0), missing("b", HELD, "died")
    assert any("n = 1" in one for one in said_of(*twice(), *lacking))


def test_invalid_runs_are_counted_and_missing_ones_are_no_invalid_ones():
    bad = [run("b", HELD, 2.0, repeat=repeat, status="invalid") for repeat in (1, 2, 3)]
    said = said_of(*twice(), *bad, missing("c", HELD, "died"))
    assert any(one.startswith("3 runs are invalid") for one in said)


def test_labels_that_were_bought_twice_are_added_up_by_strategy_also_of_invalid_runs():
    made = [*twice(), run("b", HELD, 2.0, status="invalid")]
    made[0]["books"]["doubled"], made[1]["books"]["doubled"] = 1, 2
    made[2]["books"]["doubled"] = 4
    assert said_of(*made)[:2] == [
        "WRONG: a bought 3 labels of talk twice.",
        "WRONG: b bought 4 labels of talk twice.",
    ]


def test_a_note_is_said_once_for_all_parts():
    found = results(*twice(), note="Others worked here.")
    assert cautions([found, found], groups([found])) == ["Others worked here."]
