"""hang: the call is accepted and never answered."""

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises
from carriers.simulator.params import Params
from carriers.simulator.replies import BrokenOff, Hanging


class Hang(Fault):
    """Keeps the connection open for `seconds`, then resets it; books only with `when` = after."""

    kind = "hang"
    magic_argument = "seconds"

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        # An hour is forever, to a client; but a forgotten connection does end.
        self.seconds = params.number("seconds", 3600.0, high=86_400.0)
        self.when = params.choice("when", "before", ("before", "after"))

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        if self.when == "after":
            await proceed()
        raise BrokenOff(Hanging(self.seconds))
