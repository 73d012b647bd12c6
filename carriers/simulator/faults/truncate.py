"""truncate: a valid status and headers, and a body that ends too soon."""

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises
from carriers.simulator.params import Params
from carriers.simulator.replies import BrokenOff, Truncated


class Truncate(Fault):
    """Books, and sends only the share `keep` of the answer's body."""

    kind = "truncate"
    magic_argument = "keep"

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.keep = params.number("keep", 0.5, high=1.0)

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        raise BrokenOff(Truncated(await proceed(), self.keep))
