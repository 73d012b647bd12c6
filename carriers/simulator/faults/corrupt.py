"""corrupt: 200, the right type, and a body that is neither JSON nor XML."""

from starlette.responses import Response

from carriers.simulator.call import Call, Work
from carriers.simulator.fault import Fault, Premises

# A proxy's error page with status 200, with bytes that aren't UTF-8.
GARBAGE = b"\xff\xfe\x00<html><body>Bad gatew\x80y</bo"


class Corrupt(Fault):
    """Books, and answers garbage."""

    kind = "corrupt"

    async def apply(self, call: Call, premises: Premises, proceed: Work) -> Response:
        answer = await proceed()
        return Response(GARBAGE, 200, media_type=answer.headers.get("content-type"))
