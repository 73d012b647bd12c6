"""What processes count in files, added up by one that looks from outside."""

import os
import subprocess
import sys

from deploy.counted import read_counted

COUNT = """
import sys
from prometheus_client import Counter, Gauge
busy = Gauge("workers_busy", "", ["state"], multiprocess_mode="livesum")
busy.labels("serving").inc(3)
busy.labels("waiting").inc(2)
tries = Counter("announcement_tries_total", "", ["carrier", "kind", "outcome"])
tries.labels("colibri", "announce", "announced").inc(4)
print("ready", flush=True)
sys.stdin.read()
"""


def test_metrics_of_all_processes_are_added_up_and_of_dead_ones_only_what_they_have_done(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COUNT],
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        first = processes[0].pid
        assert read_counted(tmp_path, [first]).busy == {"serving": 3, "waiting": 2}
        counted = read_counted(tmp_path)
        assert counted.busy == {"serving": 6, "waiting": 4}
        assert counted.tries == {("colibri", "announced"): 8}
        processes[0].kill()
        processes[0].wait()
        counted = read_counted(tmp_path)
        assert counted.busy == {"serving": 3, "waiting": 2}
        assert counted.tries == {("colibri", "announced"): 8}
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_file_that_is_being_made_this_moment_is_left_out(tmp_path):
    counted = "from prometheus_client import Counter\nCounter('made', 'm').inc()"
    subprocess.run(
        [sys.executable, "-c", counted],
        check=True,
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
    )
    whole = read_counted(tmp_path)
    # As prometheus_client makes it: opened, and enlarged a moment later.
    (tmp_path / "counter_1.db").touch()
    (tmp_path / f"gauge_livesum_{os.getpid()}.db").touch()
    # Listed, and removed before the look at it.
    (tmp_path / "counter_2.db").symlink_to(tmp_path / "gone")
    assert read_counted(tmp_path) == whole
    assert read_counted(tmp_path, [os.getpid()]).busy == {}


def test_nothing_counted_yet_is_missing_and_not_nought(tmp_path):
    assert read_counted(tmp_path / "none").busy == {}
