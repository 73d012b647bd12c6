"""One run directory, one run: a lock that the kernel lets go of, however we end."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from deploy.guardian import GRACE_SECONDS, guardian

# A run that was killed leaves its guardian, which needs its grace and a moment.
LEFTOVERS_SECONDS = GRACE_SECONDS + 5


class RunDirInUseError(RuntimeError):
    """Another run has this directory."""


@contextmanager
def claimed(run_dir: Path) -> Iterator[None]:
    """Hold the directory until all that was started in it has ended.

    The guardian holds the lock beside us: if we are killed, the directory is free only once it
    has ended what we left behind.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(run_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor, run_dir)
        guardian.start(keep_open=(descriptor,))
        try:
            yield
        finally:
            guardian.close()
    finally:
        os.close(descriptor)


def _lock(descriptor: int, run_dir: Path) -> None:
    end = time.monotonic() + LEFTOVERS_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            # Nothing written: it has the lock and is about to write its number.
            holder = int(os.pread(descriptor, 20, 0) or 0)
        if (holder and psutil.pid_exists(holder)) or time.monotonic() > end:
            raise RunDirInUseError(
                f"{run_dir} is in use by process {holder}. "
                f"Stop that run with Ctrl-C (or: kill {holder}),\n"
                f"or start a second one beside it:  make run RUN_DIR={run_dir / 'second'}"
            )
        time.sleep(0.1)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, str(os.getpid()).encode(), 0)
