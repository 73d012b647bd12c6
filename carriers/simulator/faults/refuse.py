"""refuse: the listening socket is closed, so that connecting fails with ECONNREFUSED."""

from carriers.simulator.fault import Fault


class Refuse(Fault):
    """Closes the port and its idle connections; calls that are in flight are still answered."""

    kind = "refuse"
    per_call = False

    def refusing(self, now: float) -> bool:
        return self.state(now) == "active"
