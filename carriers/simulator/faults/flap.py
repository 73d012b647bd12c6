"""flap: another kind of fault, on and off."""

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import KINDS, Fault, Premises, make
from carriers.simulator.params import Params


class Flap(Fault):
    """Is down for the first half of each `period`, by the fault `of` with parameters `with`."""

    kind = "flap"
    per_call = False

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.period = params.number("period", 10.0, low=0.2, high=86_400.0)
        known = tuple(sorted(set(KINDS) - {self.kind}))
        self.inner = make(params.choice("of", "error", known), params.inner("with"))

    def down(self, now: float) -> bool:
        """Return whether this is the bad half of a period."""
        age = now - self.began - self.after
        return self.state(now) == "active" and age % self.period < self.period / 2

    def refusing(self, now: float) -> bool:
        return self.down(now) and self.inner.refusing(now)

    def strikes(self, call: Call, now: float) -> bool:
        struck = self.down(now) and self.inner.strikes(call, now)
        self.struck += struck
        return struck

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        return await self.inner.apply(call, premises, proceed)
