"""From runs to what is compared: which runs count, what stands for several, what is noted."""

import pytest

from loadtests.aggregate import (
    SERVING,
    Spread,
    busy,
    comparable,
    groups,
    mean,
    peak,
    plain,
    stream_of,
    streams,
    used,
)
from loadtests.metrics import LATE_SHARE
from loadtests.tests.bench_results import HELD, WAITS, look, missing, results, run


def test_a_spread_is_median_lowest_and_highest_of_what_is_known():
    assert Spread.of([5.0, None, 1.0, 2.0]) == Spread(2.0, 1.0, 5.0)
    assert Spread.of([4.0, 1.0]) == Spread(2.5, 1.0, 4.0)
    assert Spread.of([]) is None
    assert Spread.of([0.0]) == Spread(0.0, 0.0, 0.0)  # nought is a figure


def group_of(*statuses):
    made = [run("a", HELD, 2.0, repeat=n, status=one) for n, one in enumerate(statuses, 1)]
    [group] = groups([results(*made)])
    return group


@pytest.mark.parametrize(
    ("statuses", "counted", "valid"),
    [
        (("measured", "invalid", "partial"), [1], True),
        (("invalid", "partial"), [1, 2], False),
        (("measured", "measured"), [1, 2], True),
    ],
)
def test_where_a_run_is_valid_only_the_valid_ones_count(statuses, counted, valid):
    group = group_of(*statuses)
    assert [one["repeat"] for one in group.measured()] == counted
    assert group.valid == valid


def test_a_missing_run_is_never_measured():
    [group] = groups([results(missing("a", HELD, "died"))])
    assert (group.measured(), group.valid, group.typical()) == ([], False, None)
    assert group.notes == ("run 1 missing: died",)


@pytest.mark.parametrize(
    ("latencies", "middle"), [((2.0, 8.0, 4.0), 4.0), ((2.0, 8.0, 4.0, 5.0), 5.0), ((3.0,), 3.0)]
)
def test_the_typical_run_is_the_middle_one_by_goodput_and_of_two_the_worse(latencies, middle):
    made = [run("a", HELD, latency, repeat=n) for n, latency in enumerate(latencies, 1)]
    [group] = groups([results(*made)])
    typical = group.typical()
    assert typical is not None
    [(_, _, labels)] = streams(typical)
    assert labels["summary"]["latency"]["p50"] == middle


def test_groups_stand_by_family_then_name():
    made = [run("z", HELD, 2.0), run("b", WAITS, 2.0), run("a", WAITS, 2.0)]
    found = groups([results(*made)])
    assert [group.strategy for group in found] == ["z", "a", "b"]


def test_a_variant_is_a_group_of_its_own():
    made = [run("a", HELD, 2.0), run("a", HELD, 2.0) | {"variant": "two"}]
    assert [group.variant for group in groups([results(*made)])] == ["", "two"]


def late_run(*shares):
    """An invalid run with a phase for each share of late sends."""
    made = run("a", HELD, 2.0, status="invalid")
    [phase] = made["phases"]
    labels = phase["streams"]["labels"]
    made["phases"] = [
        phase
        | {
            "name": f"p{number}",
            "streams": {
                "labels": labels
                | {"summary": labels["summary"] | {"asked": 1000, "late_sends": share * 1000}}
            },
        }
        for number, share in enumerate(shares)
    ]
    [group] = groups([results(made)])
    return group.notes[0]


def test_a_phase_is_late_beyond_the_share_that_makes_a_run_invalid():
    assert pytest.approx(0.01) == LATE_SHARE
    assert "late were" not in late_run(LATE_SHARE, 0.0)
    assert late_run(LATE_SHARE + 0.001, 0.0).endswith(
        "; late were p0 (1.1%); the other phases were sent on time"
    )
    assert "late were" not in late_run(0.5, 0.5)  # all of them: nothing stands


def test_what_did_not_happen_is_noted():
    made = run("a", HELD, 2.0, said="failed: 404")
    [group] = groups([results(made)])
    assert group.notes == ("run 1: failed: 404",)
    [group] = groups([results(run("a", HELD, 2.0, said="no reload of the front: there is none"))])
    assert group.notes == ("run 1: no reload of the front: there is none",)
    [fine] = groups([results(run("a", HELD, 2.0))])
    assert fine.notes == ()


def test_the_newest_form_of_each_scenario_is_the_one_that_counts():
    older = results(run("a", HELD, 8.0)) | {"began": "2026-01-01", "sizing": "3"}
    newer = results(run("b", HELD, 2.0)) | {"began": "2026-01-02", "sizing": "5"}
    for order in ([older, newer], [newer, older]):
        kept = comparable(order)
        assert [one["began"] for one in kept] == ["2026-01-01", "2026-01-02"]
        assert [len(one["runs"]) for one in kept] == [0, 1]


def test_a_later_bench_that_measured_nothing_drops_no_figure():
    measured = results(run("a", HELD, 8.0)) | {"began": "2026-01-01", "sizing": "3"}
    lost = results(missing("a", HELD, "died")) | {"began": "2026-01-02", "sizing": "5"}
    assert [len(one["runs"]) for one in comparable([measured, lost])] == [1, 0]
    assert [len(one["runs"]) for one in comparable([lost])] == [1]  # its reason is still said


@pytest.mark.parametrize("what", ["parameters", "carriers", "environment"])
def test_runs_with_other_parameters_have_no_common_median(what):
    quick, full = results(run("a", HELD, 2.0)), results(run("b", HELD, 2.0))
    quick["scenarios"] = {"talk": {**quick["scenarios"]["talk"], what: {"requests": 1}}}
    kept = comparable([quick | {"began": "2026-01-01"}, full | {"began": "2026-01-02"}])
    assert [len(one["runs"]) for one in kept] == [0, 1]


def test_streams_that_sent_nothing_are_left_out():
    made = run("a", HELD, 2.0)
    made["phases"][0]["streams"]["idle"] = {"summary": None}
    assert [(phase, name) for phase, name, _ in streams(made)] == [("talk", "labels")]
    assert stream_of(made, "talk", "idle") is None
    assert stream_of(made, "rest", "labels") is None


def test_figures_of_the_timeline():
    made = run("a", HELD, 2.0)
    assert peak(made, plain("connections")) == 9  # 5 and one more each second
    assert peak(made, plain("no such figure")) is None
    assert mean(made, lambda row: row["at"]) == 3  # of 2, 3, 4: the phase begins in second 1
    assert mean(made, lambda row: 3 ** row["at"]) == 39  # the median were 27
    assert mean(made, lambda row: None) is None
    assert mean(made, lambda row: row["at"] if row["at"] > 2 else None) == 3.5
    assert mean(made | {"phases": []}, lambda row: row["at"]) is None
    assert busy({"busy": {"serving": 3, "waiting": 2}}) == 3
    assert busy({}) is None
    cores = {"web": 1.0, "front": 0.25, "hub": 0.5, "worker": 9.0, "simulator": 2.0}
    serving = used("cpu", *SERVING)
    assert serving({"cpu": cores, "memory": {"web": 3.0}}) == 1.75
    assert used("cpu")({"cpu": cores}) == 10.75
    assert used("memory", *SERVING)({"memory": {}}) is serving({}) is None


def test_a_mean_is_of_the_phases_and_not_of_rest_and_settling():
    made = run("a", HELD, 1.0)
    [phase] = made["phases"]  # from second 1, with answers in five seconds
    made["phases"] = [phase, phase | {"start": 11.0}]
    busy_seconds = {*range(2, 7), *range(12, 17)}
    made["timeline"] = [
        look(at) | {"cpu": {"web": 1.0 if at in busy_seconds else 0.0}} for at in range(180)
    ]
    assert mean(made, used("cpu")) == 1.0
