"""trickle: the right answer, one byte at a time, so that no read time-out ever strikes."""

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises
from carriers.simulator.params import Params
from carriers.simulator.replies import BrokenOff, Trickled


class Trickle(Fault):
    """Books, and sends a byte of the body every `interval` seconds."""

    kind = "trickle"
    magic_argument = "interval"

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.interval = params.number("interval", 1.0, low=0.001, high=60.0)

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        raise BrokenOff(Trickled(await proceed(), self.interval))
