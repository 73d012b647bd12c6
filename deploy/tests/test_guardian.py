import os
import signal
import subprocess
import sys

import pytest

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


@pytest.fixture
def launcher(tmp_path):
    started = []

    def start(mode):
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(tmp_path / "log"), mode],
            cwd=ROOT,
            stdout=subprocess.PIPE,
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


def test_without_the_guardian_there_would_be_orphans(launcher):
    """The negative control: what is not watched outlives its launcher."""
    process, group = launcher("unguarded")
    until(lambda: len(group_members(group)) >= 2, "the child and its worker")
    process.kill()
    process.wait()
    until(process.poll, "the launcher's end")
    assert group_members(group)
