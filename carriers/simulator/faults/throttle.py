"""throttle: 429, with Retry-After or without; nothing was made."""

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises
from carriers.simulator.params import Params


class Throttle(Fault):
    """Answers at once that the client must retry after `retry_after` seconds, or just later."""

    kind = "throttle"
    magic_argument = "retry_after"

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.retry_after = params.optional_whole("retry_after", low=0, high=3600)

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        return premises.throttled(self.retry_after)
