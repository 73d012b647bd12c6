"""reset_after: the label is bought, and its answer lost in a reset."""

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises
from carriers.simulator.replies import BrokenOff, Reset


class ResetAfter(Fault):
    """Resets after the booking is in the ledger: a careless retry buys twice."""

    kind = "reset_after"

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        await proceed()
        raise BrokenOff(Reset())
