import fcntl
import os
import signal
import subprocess
import sys
import threading

import pytest

from deploy.child import Child
from deploy.plan import ROOT
from deploy.run_dir import RunDirInUseError, claimed
from deploy.tests.waiting import end, group_members

pytestmark = pytest.mark.integration

HOLDER = """
import sys, time
from pathlib import Path
from deploy.child import Child
from deploy.run_dir import claimed
with claimed(Path(sys.argv[1])):
    child = Child("one", "sh -c 'trap : TERM; while :; do sleep 0.1; done'",
                  log=Path(sys.argv[1]) / "log")
    child.start()
    print(child.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    group = int(process.stdout.readline())
    yield process, group
    end(process)
    if group_members(group):
        os.killpg(group, signal.SIGKILL)


def claim(folder):
    """Claim it from a process of its own, as a second start would."""
    script = "import sys; from pathlib import Path; from deploy.run_dir import claimed\n"
    script += "with claimed(Path(sys.argv[1])): pass"
    return subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_second_run_is_told_who_has_it_and_what_to_do(tmp_path, holder):
    process, _ = holder
    with pytest.raises(RunDirInUseError) as refusal, claimed(tmp_path):
        pass
    assert f"in use by process {process.pid}" in str(refusal.value)
    assert f"make run RUN_DIR={tmp_path}/second" in str(refusal.value)


def test_of_two_that_start_at_once_the_second_is_told_a_number_that_may_be_killed(tmp_path):
    """`kill 0` would end the reader's own shell."""
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        number = str(os.getpid()).encode()
        writing = threading.Timer(0.5, os.pwrite, [lock.fileno(), number, 0])
        writing.start()
        with pytest.raises(RunDirInUseError, match=f"kill {os.getpid()}"), claimed(tmp_path):
            pass
        writing.join()


def test_a_refused_claim_touches_nobody_elses_children(tmp_path, holder):
    child = Child("other", "sleep 60", log=tmp_path / "other.log")
    child.start()
    with pytest.raises(RunDirInUseError), claimed(tmp_path):
        pass
    assert child.running
    child.kill()


def test_a_run_that_was_killed_holds_it_until_its_children_have_ended(tmp_path, holder):
    process, group = holder
    process.kill()
    process.wait()
    assert group_members(group)
    assert claim(tmp_path).returncode == 0
    assert not group_members(group)


def test_it_is_free_after_its_run(tmp_path):
    assert claim(tmp_path).returncode == 0
    assert claim(tmp_path).returncode == 0
