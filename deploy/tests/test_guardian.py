import os
import signal
import subprocess
import sys

import pytest

from deploy import child as child_module
from deploy.child import Child
from deploy.guardian import Guardian
from deploy.plan import ROOT
from deploy.tests.waiting import end, group_members, until

pytestmark = pytest.mark.integration

# A launcher with one child, which has a worker that ignores SIGTERM.
LAUNCHER = """
import sys, time
from pathlib import Path
from deploy.child import Child
child = Child("one", "sh -c 'sh -c \\"trap : TERM; while :; do sleep 1; done\\" & wait'",
              log=Path(sys.argv[1]))
child.start()
if sys.argv[2] == "unguarded":
    from deploy.guardian import guardian
    guardian.forget(child.pid)
print(child.pid, flush=True)
time.sleep(60)
"""

# A launcher that a signal ends when its child has been started and before it knows of it.
INTERRUPTED = """
import os, signal, subprocess, sys, time
from pathlib import Path
from deploy.child import Child
from deploy.guardian import guardian
class Popen(subprocess.Popen):
    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        print(self.pid, flush=True)
        os.kill(os.getpid(), int(sys.argv[2]))
        time.sleep(60)
guardian.start()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
subprocess.Popen = Popen
Child("one", "sleep 60", log=Path(sys.argv[1])).start()
"""


@pytest.fixture
def launcher(tmp_path):
    started = []

    def start(mode, code=LAUNCHER):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "log"), mode],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        group = int(process.stdout.readline())
        started.append((process, group))
        return process, group

    yield start
    for process, group in started:
        end(process)
        if group_members(group):
            os.killpg(group, signal.SIGKILL)


def test_a_killed_launcher_leaves_no_orphans(launcher):
    process, group = launcher("guarded")
    until(lambda: len(group_members(group)) >= 2, "the child and its worker")
    process.kill()
    until(lambda: not group_members(group), "the end of the group")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_launcher_that_ends_in_the_middle_of_a_start_leaves_none_either(launcher, number):
    process, group = launcher(str(int(number)), INTERRUPTED)
    until(lambda: process.poll() is not None, "the launcher's end")
    until(lambda: not group_members(group), "the end of the group", 10)


def test_a_child_starts_also_without_its_guardian(tmp_path):
    guardian = Guardian()
    guardian.start()
    assert guardian._process
    guardian._process.kill()
    guardian._process.wait()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child_module, "guardian", guardian)
        child = Child("one", "echo here", log=tmp_path / "log")
        child.start()
        assert child.wait(10) == 0
    assert "here" in child.log_tail()


def test_without_the_guardian_there_would_be_orphans(launcher):
    """The negative control: what is not watched outlives its launcher."""
    process, group = launcher("unguarded")
    until(lambda: len(group_members(group)) >= 2, "the child and its worker")
    process.kill()
    process.wait()
    until(process.poll, "the launcher's end")
    assert group_members(group)
