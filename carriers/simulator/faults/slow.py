"""slow: the right answer, `seconds` later than it would have come."""

import asyncio

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises
from carriers.simulator.params import Params


class Slow(Fault):
    """Waits before the carrier begins: a client that gives up has bought nothing yet."""

    kind = "slow"
    magic_argument = "seconds"

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.seconds = params.number("seconds", 5.0, high=3600.0)

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        await asyncio.sleep(self.seconds)
        return await proceed()
