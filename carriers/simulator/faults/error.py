"""error: a server error in the carrier's own form, before or after booking."""

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises
from carriers.simulator.params import Params


class Error(Fault):
    """Answers `status`; with `when` = after, the label was bought anyway."""

    kind = "error"
    magic_argument = "status"

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        # Only 5xx: a 4xx is a documented refusal, and a promise that nothing was made.
        self.status = params.whole("status", 500, low=500, high=599)
        self.when = params.choice("when", "before", ("before", "after"))

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        if self.when == "after":
            await proceed()
        return premises.error(self.status)
