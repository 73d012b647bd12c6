import os

from offload.counting import GONE, HELD, HOLDS, LATE, NAMES, Counts, shared_memory


def test_processes_add_up():
    memory = shared_memory(2)
    first, second = Counts(memory, 0), Counts(memory, 1)
    first.own[HOLDS] += 2
    second.own[HOLDS] += 1
    second.own[GONE] += 5
    assert first.as_dict() | {"holds": 3, "gone_total": 5, "processes": 2} == second.as_dict()
    assert (first.own[HOLDS], second.own[HOLDS]) == (2, 1)


def test_successor_forgets_what_died_and_keeps_totals():
    memory = shared_memory(1)
    first = Counts(memory)
    first.own[HOLDS] += 7
    first.own[HELD] += 7
    successor = Counts(memory)
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
