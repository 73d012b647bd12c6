"""Processor time and memory of real processes."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from deploy.plan import ROOT
from deploy.processes import Processes, tree, usage


def busy(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_processor_is_what_was_spent_in_a_second_since_the_last_look():
    mine = Processes({"me": os.getpid(), "me too": os.getpid()})
    # The first look only begins; to the second name a tick of the clock may come in between.
    assert mine.processor()["me"] == 0
    began = time.monotonic()
    busy(0.2)
    share = 0.2 / (time.monotonic() - began)
    seen = mine.processor()
    assert seen["me"] == pytest.approx(share, rel=0.5)
    assert seen["me too"] < share / 2  # nothing is counted twice
    time.sleep(0.3)
    assert mine.processor()["me"] < share / 2


def test_several_of_the_same_are_one_name():
    """A balancer's two nodes are `web1` and `web2`; who asks for `web` means both."""
    mine = Processes({"web1": os.getpid(), "web2": os.getpid(), "front": 2**22 + 1})
    assert len(mine.tree("web")) == 2 * len(tree(os.getpid()))
    assert set(mine.memory()) == {"web", "front"}


def test_who_has_ended_spends_and_has_nothing():
    gone = Processes({"gone": 2**22 + 1})  # above every pid
    assert gone.processor() == {"gone": 0}
    assert gone.memory() == {"gone": 0}
    assert Processes({"me": os.getpid()}).memory()["me"] > 1


def test_memory_is_told_where_only_root_may_see_what_is_shared(monkeypatch):
    """On macOS."""

    def refused(process):
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "memory_full_info", refused)
    assert Processes({"me": os.getpid()}).memory()["me"] > 1


@pytest.fixture
def family(tmp_path):
    """A process with a child that has 40 MB and a file open twice."""
    child = (
        f"import time; one = open({str(tmp_path / 'db')!r}, 'w'); two = open(one.name);"
        "memory = bytearray(b'x') * 40_000_000; print('ready', flush=True); time.sleep(60)"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        for one in tree(process.pid)[::-1]:
            one.kill()
        process.communicate()


def test_usage_is_of_the_roots_and_all_below_them(family, tmp_path):
    found = usage([family], tmp_path / "db")
    assert found.processes == 2
    assert 40e6 < found.memory < 120e6
    assert found.database_files == 2
    assert usage([family, family], None).processes == 2


# A launcher with two children: one sleeps, the other looks at all, and has started one more.
LAUNCHER = """
import subprocess, sys
beside = subprocess.Popen(["sleep", "60"])
print(subprocess.check_output([sys.executable, "-c", sys.argv[1]], text=True))
beside.kill()
"""
LOOKS = """
import os, subprocess
from deploy.processes import usage
own = subprocess.Popen(["sleep", "60"])
print(usage([os.getppid()], None).processes)
own.kill()
"""


def test_usage_leaves_out_this_process_and_what_it_has_started():
    """The page is a child of the launcher that it watches: it is not the stack's."""
    command = [sys.executable, "-c", LAUNCHER, LOOKS]
    found = subprocess.check_output(command, cwd=ROOT, text=True, timeout=60)
    assert int(found) == len(["launcher", "beside"])


def test_memory_of_a_name_is_its_whole_tree(family):
    leader_alone = Processes({"web": family}).memory()["web"]
    assert leader_alone > 40


def test_pages_that_two_share_count_once():
    """A fork that has written nothing adds next to nothing; resident sizes would add all of it."""
    code = (
        "import os, time; memory = bytearray(b'x') * 80_000_000;"
        "os.fork(); os.write(1, b'r'); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.read(2) == b"rr"
        processes = Processes({"web": process.pid})
        assert len(processes.tree("web")) == 2
        assert 80 < processes.memory()["web"] < 130
    finally:
        for one in tree(process.pid)[::-1]:
            one.kill()
        process.communicate()
