import os

from offload.counting import NAMES, Counts, shared_file


def test_processes_add_up():
    descriptor = shared_file(2)
    first, second = Counts(descriptor, 0), Counts(descriptor, 1)
    os.close(descriptor)
    first.add("holds", 2)
    second.add("holds")
    second.add("gone_total", 5)
    assert first.as_dict() | {"holds": 3, "gone_total": 5, "processes": 2} == second.as_dict()
    assert (first.mine("holds"), second.mine("holds")) == (2, 1)


def test_successor_forgets_what_died_and_keeps_totals():
    descriptor = shared_file(1)
    first = Counts(descriptor)
    first.add("holds", 7)
    first.add("held_total", 7)
    successor = Counts(descriptor)
    os.close(descriptor)
    assert (successor.mine("holds"), successor.mine("held_total")) == (0, 7)


def test_prometheus_text():
    counts = Counts()
    counts.add("late_total", 3)
    lines = counts.as_prometheus().splitlines()
    assert "offload_late_total 3" in lines
    assert "# TYPE offload_late_total counter" in lines
    assert "# TYPE offload_holds gauge" in lines
    assert len(lines) == 3 * len(NAMES)


def test_after_a_fork_each_counts_for_itself():
    counts = Counts()
    child = os.fork()
    if not child:
        counts.add("holds", 5)
        os._exit(0)
    os.waitpid(child, 0)
    assert counts.mine("holds") == 0
