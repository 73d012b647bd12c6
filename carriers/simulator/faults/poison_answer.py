"""poison_answer: a whole, readable answer whose tracking number no database column takes."""

import re

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.catalogue import CATALOGUE
from carriers.simulator.fault import Fault, Premises
from carriers.simulator.params import Params

_PREFIXES = "|".join(spec.tracking.partition("{")[0] for spec in CATALOGUE.values())
NUMBER = re.compile(rf"\b(?:{_PREFIXES})[0-9]{{10}}\b".encode())
# The second is JSON's escape of a NUL; in XML it is six harmless characters.
POISON = {"long": b"X" * 300, "nul": b"X\\u00001"}


class PoisonAnswer(Fault):
    """Books, and answers with a tracking number of 300 characters, or with a NUL in it."""

    kind = "poison_answer"

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.number = POISON[params.choice("how", "long", tuple(POISON))]

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        answer = await proceed()
        body = NUMBER.sub(lambda _: self.number, bytes(answer.body))
        kept = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return Response(body, answer.status_code, kept)
