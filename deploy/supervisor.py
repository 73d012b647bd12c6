"""honcho's manager, with the habits of systemd.

What honcho does when one process dies is to end all. Here the dead one is started again after a
pause, and only one that keeps dying ends all. Further differences: a process is replaced by its
command (no shell in between), it is the leader of a group that is killed with it, the relays are
threads instead of processes, and SIGHUP (the terminal was closed) ends everything, too.
"""

import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from honcho.manager import SYSTEM_PRINTER_NAME, Manager
from honcho.printer import Message, Printer
from honcho.process import Process

from deploy.child import STOP_SECONDS, direct
from deploy.guardian import guardian, signal_group
from deploy.plan import PlannedProcess

# With pauses of 0.5, 1, 2 and 4 s the fifth death of a process that can't start comes after 8 s
# plus its own starts (3 s each): within the window. One that dies once a minute is kept going.
MAX_DEATHS, WINDOW_SECONDS = 5, 30.0
FIRST_PAUSE_SECONDS = 0.5
# How late a restart or a kill may come; nothing is busy-waited for.
TICK_SECONDS = 0.1

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
GAVE_UP = 1


@dataclass
class Service:
    """What the supervisor knows of one process."""

    planned: PlannedProcess
    relay: Any  # honcho's Process
    pid: int | None = None
    stopped: bool = True
    asked: bool = False
    restart_at: float | None = None
    deaths: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_DEATHS))

    @property
    def pause(self) -> float:
        """Return the seconds to wait after the latest death."""
        return FIRST_PAUSE_SECONDS * 2 ** (len(self.deaths) - 1)

    def died(self, now: float) -> bool:
        """Note a death; say whether there were too many of late."""
        while self.deaths and self.deaths[0] < now - WINDOW_SECONDS:
            self.deaths.popleft()
        self.deaths.append(now)
        return len(self.deaths) >= MAX_DEATHS


class GroupProcess(Process):
    """honcho's process; when its leader ends, what is left of its group ends with it.

    Without that a server's orphaned workers would hold the pipe open, and its death go unnoticed.
    """

    def run(self, events: Any = None, ignore_signals: bool = False) -> None:
        """Start the command and relay its lines until its end (honcho's interface)."""
        self._events = events
        self._child = self._child_ctor(direct(self.cmd), env=self.env, cwd=self.cwd)
        guardian.watch(self._child.pid)
        self._send_message({"pid": self._child.pid}, type="start")
        threading.Thread(target=self._end_group_with_leader, daemon=True).start()
        with self._child.stdout as lines:
            for line in lines:
                self._send_message(line)
        self._send_message({"returncode": self._child.wait()}, type="stop")

    def signal_leader(self, number: int) -> None:
        """Send the process itself a signal; a paused one goes on to hear it."""
        self._child.send_signal(number)
        signal_group(self._child.pid, signal.SIGCONT)

    def _end_group_with_leader(self) -> None:
        self._child.wait()
        signal_group(self._child.pid, signal.SIGKILL)
        guardian.forget(self._child.pid)


class Terminal(Printer):
    """honcho's printer; when nobody reads any more, that is a reason to stop, not to crash."""

    def write(self, message: Message) -> None:
        """Print a message with its time and process."""
        with self.unless_gone():
            super().write(message)

    @contextmanager
    def unless_gone(self) -> Iterator[None]:
        """Print within; a closed terminal or pipe ends the run as its hang-up would."""
        try:
            yield
        except OSError:
            self.output = open(os.devnull, "w")  # noqa: SIM115  # for the rest of our life
            os.kill(os.getpid(), signal.SIGHUP)


class Supervisor(Manager):
    """Run processes until a signal comes or one of them keeps dying.

    `returncode` is then 130, 143 or 129 by signal, 1 when it gave up.
    """

    def __init__(self, printer: Printer, *, stop_seconds: float = STOP_SECONDS) -> None:
        super().__init__(printer)
        # Threads put here, not processes; SimpleQueue, since a signal handler puts, too.
        self.events: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._terminating = False
        self.returncode: int | None = None
        self.stop_seconds = stop_seconds
        self._process_ctor = GroupProcess
        self._services: dict[str, Service] = {}
        self._kill_at: float | None = None

    def add(self, planned: PlannedProcess, env: Mapping[str, str], cwd: Path) -> None:
        """Add a process; `loop` starts it."""
        relay = self.add_process(planned.name, planned.command, env=dict(env), cwd=str(cwd))
        self._services[planned.name] = Service(planned, relay)

    def say(self, text: str, name: str = SYSTEM_PRINTER_NAME) -> None:
        """Print a line among the processes' own; any thread may."""
        self.events.put(Message("line", text, self._clock.now(), name, None))

    def call(self, function: Callable[[], None]) -> None:
        """Run a function between two lines of output; any thread may ask."""
        self.events.put(Message("call", function, self._clock.now(), "", None))

    def why_stopping(self) -> str:
        """Return a sentence once the end has been decided, an empty string before."""
        return "everything is being stopped" if self._terminating else ""

    def fail(self, reason: str) -> None:
        """End everything because of this reason; any thread may ask."""
        self.say(reason)
        self.call(lambda: self._end_with(GAVE_UP))

    def loop(self) -> None:
        """Start all processes and supervise them until none is left."""
        with self._signals():
            try:
                for service in self._services.values():
                    self._begin(service)
                while not self._finished():
                    self._handle_next_event()
                    self._restart_what_is_due()
                    self._press_on_with_stopping()
            finally:
                self._end_in_silence()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._on_signal) for number in EXIT_CODES}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: object) -> None:
        """Only note it: the handler may have interrupted a print."""
        if self._terminating:
            self._kill_at = time.monotonic()  # asked twice: no more patience
        self.returncode = self.returncode or EXIT_CODES[signal.Signals(number)]
        self.call(self.terminate)

    def _begin(self, service: Service) -> None:
        service.stopped = False
        service.restart_at = None
        service.pid = None
        threading.Thread(target=service.relay.run, args=(self.events,), daemon=True).start()

    def _handle_next_event(self) -> None:
        try:
            message = self.events.get(timeout=TICK_SECONDS)
        except queue.Empty:
            return
        if message.type == "line":
            self._printer.write(message)
        elif message.type == "call":
            message.data()
        elif message.type == "start":
            self._on_start(self._services[message.name], message.data["pid"])
        elif message.type == "stop":
            self._on_stop(self._services[message.name], message.data["returncode"])

    def _on_start(self, service: Service, pid: int) -> None:
        service.pid = pid
        if self._terminating:  # the end was decided while it was being started
            self._ask_to_stop(service)

    def _on_stop(self, service: Service, code: int) -> None:
        service.stopped = True
        if self._terminating:
            return
        name, ending = service.planned.name, _ending(code)
        if service.died(time.monotonic()):
            self._system_print(
                f"{name} {ending}: the {MAX_DEATHS}th time within {WINDOW_SECONDS:g} s. Giving up\n"
            )
            self._end_with(GAVE_UP)
            return
        service.restart_at = time.monotonic() + service.pause
        self._system_print(f"{name} {ending}; starting it again in {service.pause:g} s\n")

    def _restart_what_is_due(self) -> None:
        for service in self._services.values():
            due = service.restart_at is not None and service.restart_at <= time.monotonic()
            if due and not self._terminating:
                self._begin(service)

    def _end_with(self, code: int) -> None:
        self.returncode = self.returncode or code
        self.terminate()

    def terminate(self) -> None:
        """Ask all to stop, the ones that others need last; `loop` kills what doesn't in time."""
        if self._terminating:
            return
        self._terminating = True
        self._kill_at = self._kill_at or time.monotonic() + self.stop_seconds
        self._system_print("stopping\n")
        for service in self._running(backing=False):
            self._ask_to_stop(service)

    def _press_on_with_stopping(self) -> None:
        if not self._terminating:
            return
        if not self._running(backing=False):
            for service in self._running(backing=True):
                self._ask_to_stop(service)
        if self._kill_at is not None and time.monotonic() > self._kill_at:
            self._kill_rest()

    def _running(self, *, backing: bool) -> list[Service]:
        services = self._services.values()
        return [one for one in services if not one.stopped and one.planned.backing == backing]

    def _ask_to_stop(self, service: Service) -> None:
        if service.pid is not None and not service.asked:
            service.asked = True  # many servers take a second signal for impatience
            service.relay.signal_leader(service.planned.stop_signal)

    def _kill_rest(self) -> None:
        for service in self._running(backing=False) + self._running(backing=True):
            if service.pid is not None:
                signal_group(service.pid, signal.SIGKILL)

    def _finished(self) -> bool:
        stopped = all(service.stopped for service in self._services.values())
        return self._terminating and stopped and self.events.empty()

    def _end_in_silence(self) -> None:
        """End what still runs without printing: the terminal may be what has failed."""
        self._terminating = True
        self._kill_rest()


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with {code}"
    return f"was killed by {signal.Signals(-code).name}"
