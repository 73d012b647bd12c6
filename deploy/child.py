"""One child process in a group of its own, its output in a file."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

from deploy.guardian import guardian, signal_group
from deploy.readiness import NotReadyError, wait_until_ready

# Over the longest carrier call (CARRIER_CALL_DEADLINE, 30 s), ten for its answer to be recorded: a
# worker waits for that without a limit of its own. Idle processes end at once.
STOP_SECONDS = 40.0

# Each held request costs two descriptors; macOS starts with 256, and above this nothing is gained.
DESCRIPTORS = 20_000

# Before it becomes the server, so that no end of ours comes in between. A subshell: without a
# guardian to read, SIGPIPE ends that.
WATCHED = '(echo "+$$" >&0); exec </dev/null; '

ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")


def direct(command: str) -> str:
    """Return the command so that the shell becomes it: its pid is then the server's own pid."""
    if command.startswith("exec "):
        return command
    return f"exec env {command}" if ASSIGNMENT.match(command) else f"exec {command}"


def raise_descriptor_limit() -> None:
    """Allow this process and its children as many open connections as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # macOS caps it lower than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@dataclass(eq=False)
class Child:
    """Run a shell command; stop it as systemd's KillMode=mixed does.

    The signal to stop goes to the leader alone, which ends its own workers in its own order; what
    is left of the group afterwards is killed. `user` needs root and runs the command as that user.
    """

    name: str
    command: str
    _: KW_ONLY
    log: Path
    env: Mapping[str, str] | None = field(default=None, repr=False)  # it has secrets
    cwd: Path | None = None
    stop_signal: int = signal.SIGTERM
    user: str | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _group: int | None = field(default=None, init=False)

    def start(self) -> None:
        """Start the command; its output is appended to the log."""
        if self.running:
            raise RuntimeError(f"{self.name} is running already (pid {self.pid})")
        self._sweep()
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", WATCHED + direct(self.command)],
                stdin=guardian.pipe,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd=self.cwd,
                start_new_session=True,
                user=self.user,
                group=self.user,
                extra_groups=[] if self.user else None,
            )
        self._group = self._process.pid

    @property
    def pid(self) -> int:
        """Return the server's own process id, also after its end."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Say whether the leader lives (a paused one does)."""
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """Return what the leader ended with; negative for a signal, None while it runs."""
        return self._process.poll() if self._process else None

    def signal(self, number: int, *, leader_only: bool = False) -> None:
        """Send a signal to the whole group, or to the leader alone."""
        if leader_only and self.running:
            os.kill(self.pid, number)
        elif not leader_only and self._group is not None:
            signal_group(self._group, number)

    def kill(self) -> None:
        """Kill the whole group and wait for its end."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait()
            self._sweep()

    def ask_to_stop(self) -> None:
        """Send the signal to stop, without waiting; a paused process goes on to hear it."""
        self.signal(self.stop_signal, leader_only=True)
        self.signal(signal.SIGCONT)

    def stop(self, seconds: float = STOP_SECONDS) -> int | None:
        """Stop it, wait at most that long, then kill; return what it ended with."""
        self.ask_to_stop()
        return self.wait(seconds)

    def wait(self, seconds: float) -> int | None:
        """Wait for the leader's end, kill what is left, and return what it ended with."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            self.kill()
        return self.returncode

    def _sweep(self) -> None:
        if self._group is not None:
            signal_group(self._group, signal.SIGKILL)  # workers that outlived their leader
            guardian.forget(self._group)
            self._group = None  # its number may be somebody else's from now on

    def wait_ready(self, question: str, seconds: float) -> None:
        """Wait until the answer is yes; NotReadyError has the end of the log."""
        try:
            wait_until_ready(question, seconds=seconds, given_up=self.cause_of_death)
        except NotReadyError as error:
            tail = f"--- {self.log}\n{self.log_tail()}"
            raise NotReadyError(f"{self.name}: {error}\n{tail}") from None

    def log_tail(self, lines: int = 30) -> str:
        """Return the last lines of the output."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def cause_of_death(self) -> str:
        """Return a sentence when it has ended, an empty string while it runs."""
        if self.running:
            return ""
        if self.returncode is not None and self.returncode < 0:
            return f"{self.name} was killed by {signal.Signals(-self.returncode).name}"
        return f"{self.name} ended with {self.returncode}"


def stop_all(children: list[Child], seconds: float = STOP_SECONDS) -> None:
    """Stop several at once: together they take as long as the slowest."""
    for child in children:
        child.ask_to_stop()
    end = time.monotonic() + seconds
    for child in children:
        child.wait(max(0.0, end - time.monotonic()))
