"""late_commit: the call fails now, and the label is bought later."""

import asyncio

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises
from carriers.simulator.params import Params


class LateCommit(Fault):
    """Answers 500 at once and books after `seconds`, if the process lives so long."""

    kind = "late_commit"
    magic_argument = "seconds"

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.seconds = params.number("seconds", 2.0, high=3600.0)

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        call.by = "late commit"
        call.spends_latency = False
        premises.later(self._commit(proceed))
        return premises.error(500)

    async def _commit(self, proceed: Work) -> None:
        await asyncio.sleep(self.seconds)
        await proceed()
