"""F15: the front reloaded and the application restarted while hundreds of clients are held."""

import time

from loadtests.deployment import reload
from loadtests.faults.clients import Load
from loadtests.faults.fault import Control, Dose, Fault, Measure, register
from loadtests.faults.journals import Journals
from loadtests.faults.rig import Rig


@register
class Reload(Fault):
    """A release is an everyday thing: each held client is answered, or told 202 on the drain.

    The application is stopped gracefully and started again: what is held lies at the front and the
    hub, which don't stop. Its control kills the front, as a deployment does that knows no reload.
    """

    id = "F15"
    title = "front reload and app restart under holds"
    doses = {"short": Dose(80, 1), "full": Dose(2_500, 5)}
    strategy = "nginx-accel"
    # Longer than it takes to accept all, to reload and to restart, which no scale shrinks.
    times = {"SIMULATOR_LATENCY_POSTNL": 20.0}
    short_scale = 1.0
    # Who isn't held yet when the app stops is cut off with it: all must be taken in within seconds.
    alone = True
    controls = {"drain": Control("I6", environment={})}
    held = held_on = 0

    def strike(self, rig: Rig) -> None:
        each = self.dose.requests // self.dose.strikes
        for number in range(self.dose.strikes):
            wishes = rig.wishes(each, synchronous=1.0, carriers=("postnl",), prefix=f"r{number}")
            load = rig.send(wishes, at_once=each)
            if not rig.wait_until(lambda: rig.database.unfinished() >= each, 10, every=0.1):
                raise RuntimeError("the app hasn't taken in all clients: they are not held yet")
            time.sleep(0.5)  # the last one's way from the app to the hub
            self.held += _held(load)
            if self.control:
                rig.kill("front")
            else:
                rig.note(f"{_held(load)} held; front: {reload(rig.stack, 'front')}")
                time.sleep(1)
                rig.stack.stop("web")
                # Not after its start, which on a busy machine takes longer than the carrier.
                self.held_on += (held := _held(load))
                rig.note(f"app stopped; {held} held")
                rig.stack.start("web")
                rig.note(f"app started; {_held(load)} held")
            load.join()

    def measure(self, rig: Rig, journals: Journals) -> list[Measure]:
        reset = sum(told.status is None for told in journals.told)
        late = sum(told.status == 202 for told in journals.told)
        most = len(journals.told)
        return [
            Measure("held before", self.held, f"half of {most}", self.held * 2 >= most),
            Measure("held without app", self.held_on, f"half of {most}", self.held_on * 2 >= most),
            Measure("clients cut off", reset, "0", not reset),
            Measure("clients told 202", late, "-", True),
        ]


def _held(load: Load) -> int:
    return sum(told.status is None and not told.error for told in load.told)
