"""Leave no orphan: end the process groups of a launcher that was killed.

A launcher that dies by SIGKILL can't end its children. So a small process beside it holds the
reading end of a pipe: each line `+pid` names a process group to end, `-pid` one that has ended
already. The pipe's end means that the launcher is gone, however it went. Linux could do this with
PR_SET_PDEATHSIG, but that reaches only direct children (not a server's own workers) and macOS has
nothing like it; a pipe works on both.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time

# The launcher was shot: nobody waits for answers any more. Long enough to close files.
GRACE_SECONDS = 3.0


class Guardian:
    """The launcher's side: start the process on first use and tell it what there is to end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1

    def start(self, *, keep_open: tuple[int, ...] = ()) -> None:
        """Start the process; it holds the descriptors in `keep_open` (a lock) until it ends."""
        reading, self._pipe = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", __file__],
            stdin=reading,
            pass_fds=keep_open,
            start_new_session=True,
        )
        os.close(reading)
        atexit.register(self.close)
        # A forked copy of us would keep the pipe open beyond our end.
        os.register_at_fork(after_in_child=self._let_go)

    @property
    def pipe(self) -> int:
        """Return where a new group writes its `+pid` itself: we may end before we know of it."""
        if self._process is None:
            self.start()
        return self._pipe

    def forget(self, group: int) -> None:
        """Leave the group alone: it has ended, its number may be somebody else's soon."""
        with contextlib.suppress(BrokenPipeError):  # it was killed: we go on without it
            os.write(self.pipe, f"-{group}\n".encode())  # so short that lines can't mix

    def close(self) -> None:
        """Close the pipe and wait until all that was still watched has ended."""
        if self._process is not None:
            os.close(self._pipe)
            self._process.wait()
            self._process = None

    def _let_go(self) -> None:
        if self._process is not None:
            os.close(self._pipe)
            self._process = None


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; False when there is none any more."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        return False
    return True


def end_groups(groups: set[int]) -> None:
    """Ask the groups to end, then make them."""
    for group in groups:
        signal_group(group, signal.SIGTERM)
        signal_group(group, signal.SIGCONT)
    end = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < end and any(signal_group(group, 0) for group in groups):
        time.sleep(0.05)
    for group in groups:
        signal_group(group, signal.SIGKILL)


def main() -> None:
    """Read the pipe to its end, then end what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        if line.endswith("\n"):  # else the launcher died in the middle of a number
            change = groups.add if line[0] == "+" else groups.discard
            change(int(line[1:]))
    end_groups(groups)


guardian = Guardian()

if __name__ == "__main__":
    main()
