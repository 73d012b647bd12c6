"""refuse_after: the label is bought, and the answer is a documented refusal."""

from __future__ import annotations

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises
from carriers.simulator.params import Params


class RefuseAfter(Fault):
    """Refuses what it has booked: a proxy that sent the call twice, a key rotated half-way."""

    kind = "refuse_after"

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        known = ("ADDRESS_INVALID", "DUPLICATE_REFERENCE", "UNAUTHORIZED")
        self.reason = params.choice("reason", known[0], known)

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        """Book, then say that nothing was made."""
        await proceed()
        return premises.refused(self.reason)
