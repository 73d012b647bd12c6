"""Start again what has died: after a pause, and not for ever, as systemd would."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from deploy.stack import Stack

# With pauses of 0.5, 1, 2 and 4 s the fifth death of a process that can't start comes after 8 s
# plus its own starts (3 s each): within the window. One that dies once a minute is kept going.
MAX_DEATHS, WINDOW_SECONDS = 5, 30.0
FIRST_PAUSE_SECONDS = 0.5


class GaveUpError(RuntimeError):
    """A process kept dying."""


@dataclass
class Deaths:
    """One process' deaths of late."""

    moments: deque[float] = field(default_factory=deque)
    restart_at: float | None = None
    pause: float = 0.0  # seconds to wait after the latest

    def note(self, now: float) -> bool:
        """Note a death; say whether there were too many of late."""
        self.moments.append(now)
        while self.moments[0] < now - WINDOW_SECONDS:
            self.moments.popleft()
        self.pause = FIRST_PAUSE_SECONDS * 2 ** (len(self.moments) - 1)
        self.restart_at = now + self.pause
        return len(self.moments) >= MAX_DEATHS


class Keeper:
    """Keeps a stack's processes running; `say` is told what it does."""

    def __init__(self, stack: Stack, say: Callable[[str], None]) -> None:
        self._stack = stack
        self._say = say
        self._deaths = {name: Deaths() for name in stack.names}

    def look(self, now: float) -> None:
        """Note what has ended, restart what is due; GaveUpError where one keeps ending."""
        for name, deaths in self._deaths.items():
            if self._stack.running(name):
                continue
            if deaths.restart_at is None:
                ending = self._stack.cause_of_death(name)
                # Its own workers. After the pause the group's number may be somebody else's.
                self._stack.kill(name)
                if deaths.note(now):
                    often = f"the {MAX_DEATHS}th time within {WINDOW_SECONDS:g} s"
                    raise GaveUpError(f"{ending}: {often}. Giving up")
                self._say(f"{ending}; starting it again in {deaths.pause:g} s")
            elif deaths.restart_at <= now:
                deaths.restart_at = None
                self._stack.launch(name)
