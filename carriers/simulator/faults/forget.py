"""forget: the label is bought and answered, and no lookup ever shows it."""

from __future__ import annotations

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises


class Forget(Fault):
    """Keeps what it books out of lookups until the process ends; the ledger has it."""

    kind = "forget"

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        """Book, and forget."""
        call.listed = False
        return await proceed()
