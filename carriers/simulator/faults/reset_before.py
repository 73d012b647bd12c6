"""reset_before: the connection is reset, and nothing was bought."""

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises
from carriers.simulator.replies import BrokenOff, Reset


class ResetBefore(Fault):
    """Resets at once: the client can't tell it from `reset_after`."""

    kind = "reset_before"

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        raise BrokenOff(Reset())
