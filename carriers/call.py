"""One exchange with a carrier: its deadline, and whether a purchase or a void was sent.

Shared by the transports. Why `leaving` is called at the first byte and not before the connection is
made: a process that is frozen or waits for DNS in between must notice that its time is over before
it buys, not after.
"""

import math
import time
from dataclasses import dataclass

from carriers import classify
from carriers.errors import CarrierError, CarrierTimeout, RequestUnbuildable, SendForbidden
from carriers.messages import CarrierRequest
from carriers.outcomes import NotSent, Unknown

# Why 5 MB: a label's PDF and ZPL are some 100 KB in base64; a customs set of ten pages below 3 MB.
LARGEST_BODY = 5_000_000
USER_AGENT = "slow-carriers/0.1"
# Seconds for connecting to one of several addresses, at least: three round trips around the earth.
LEAST_SHARE = 0.5


@dataclass(eq=False, slots=True)
class Call:
    """The state of one exchange; `ends_at` and `acts_until` by the monotonic clock."""

    base_url: str
    ends_at: float
    connect_timeout: float
    acts_until: float = math.inf
    act_sent: bool = False
    request: CarrierRequest | None = None

    def begin(self, request: CarrierRequest) -> None:
        """Start a step."""
        # Before anything leaves, in both transports.
        for name, value in request.headers.items():
            if value != value.strip() or not (value.isprintable() and value.isascii()):
                raise RequestUnbuildable(f"the header {name} can't be sent")
        self.request = request
        if request.nothing_made:
            self.act_sent = False
        if time.monotonic() >= self.ends_at:
            raise CarrierTimeout("the total deadline has passed")

    def remaining(self, most: float = math.inf) -> float:
        """Return the seconds left, at most so many.

        Never below a millisecond: 0 means "don't block" to a socket.
        """
        return min(max(self.ends_at - time.monotonic(), 0.001), most)

    def leaving(self) -> None:
        """Note that bytes are about to be sent; raise if they must not.

        From here on a request that acts counts as sent, even if the next instruction fails: this
        error costs a lookup, the opposite one a second label.
        """
        if self.request is None or not self.request.acts or self.act_sent:
            return
        now = time.monotonic()
        if now > self.acts_until:
            raise SendForbidden
        if now >= self.ends_at:
            raise CarrierTimeout("the total deadline has passed")
        self.act_sent = True

    def outcome(self, error: CarrierError) -> NotSent | Unknown:
        """Turn an error into this exchange's outcome."""
        return classify.trouble(error, act_sent=self.act_sent)
