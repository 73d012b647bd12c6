"""Print what processes write into their logs, each line with its time and its process."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Self, TextIO

# Seconds: at once, for an eye.
EVERY = 0.1
# Bytes: what has been printed is not kept for ever, or a run of weeks would fill the disk.
LONGEST_LOG = 20_000_000
COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)


class Follower:
    """Follow `<name>.log` of each name that there is; `with` begins and ends it.

    When nobody reads any more, that is a reason to stop, not to crash: it sends us SIGHUP.
    """

    def __init__(
        self, folder: Path, names: Callable[[], Iterable[str]], output: TextIO, *, colour: bool
    ) -> None:
        self._folder = folder
        self._names = names
        self._output: TextIO | None = output
        self._colour = colour
        self._files: dict[str, BinaryIO] = {}
        self._broken: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._look()
        for file in self._files.values():
            file.close()

    def say(self, text: str, name: str = "system") -> None:
        """Print lines of our own among the processes'."""
        prefix = f"{time.strftime('%H:%M:%S')} {name:<10} | "
        if self._colour:
            prefix = f"\033[{COLOURS[sum(name.encode()) % len(COLOURS)]}m{prefix}\033[0m"
        for line in text.splitlines():
            self.show(prefix + line)

    def show(self, text: str) -> None:
        """Print text as it is."""
        with self._lock:
            if self._output is None:
                return
            try:
                print(text, file=self._output, flush=True)
            except OSError:
                self._output = None
                os.kill(os.getpid(), signal.SIGHUP)

    def _run(self) -> None:
        while not self._end.wait(EVERY):
            self._look()

    def _look(self) -> None:
        for name in self._names():
            path = self._folder / f"{name}.log"
            if name not in self._files and path.exists():
                self._files[name] = path.open("rb")
        for name, file in self._files.items():
            whole, newline, rest = (self._broken.pop(name, b"") + file.read()).rpartition(b"\n")
            self._broken[name] = rest
            if newline:
                self.say(whole.decode(errors="replace"), name)
            if file.tell() > LONGEST_LOG:
                os.truncate(file.name, 0)  # its writer appends
                file.seek(0)
