import os

from offload.counting import GONE, HELD, HOLDS, LATE, NAMES, Counts, shared_file


def test_processes_add_up():
    descriptor = shared_file(2)
    first, second = Counts(descriptor, 0), Counts(descriptor, 1)
    os.close(descriptor)
    first.own[HOLDS] += 2
    second.own[HOLDS] += 1
    second.own[GONE] += 5
    assert first.as_dict() | {"holds": 3, "gone_total": 5, "processes": 2} == second.as_dict()
    assert (first.own[HOLDS], second.own[HOLDS]) == (2, 1)


def test_successor_forgets_what_died_and_keeps_totals():
    descriptor = shared_file(1)
    first = Counts(descriptor)
    first.own[HOLDS] += 7
    first.own[HELD] += 7
    successor = Counts(descriptor)
    os.close(descriptor)
    assert (successor.own[HOLDS], successor.own[HELD]) == (0, 7)


def test_prometheus_text():
    counts = Counts()
    counts.own[LATE] += 3
    lines = counts.as_prometheus().splitlines()
    assert "offload_late_total 3" in lines
    assert "# TYPE offload_late_total counter" in lines
    assert "# TYPE offload_holds gauge" in lines
    assert len(lines) == 3 * len(NAMES)


def test_after_a_fork_each_counts_for_itself():
    counts = Counts()
    child = os.fork()
    if not child:
        counts.own[HOLDS] += 5
        os._exit(0)
    os.waitpid(child, 0)
    assert counts.own[HOLDS] == 0
