"""The adapter protocol: how to talk to a carrier, without any input or output.

An adapter speaks in *steps*: a generator that yields a `CarrierRequest`, is sent the
`CarrierResponse`, and returns an outcome. How the caller waits (threads, gevent, asyncio) is the
transport's business: `carriers.transport` and `carriers.transport_async` drive the same generators.
"""

from collections.abc import Generator
from datetime import UTC, datetime
from typing import ClassVar, Literal, TypeVar

from carriers import classify
from carriers.classify import Phase, Promises
from carriers.errors import CarrierAnswerUnreadable
from carriers.messages import (
    CarrierRequest,
    CarrierResponse,
    Consignment,
    Credentials,
    Purchase,
)
from carriers.methods import ShippingMethod
from carriers.outcomes import (
    Answered,
    LookupResult,
    NotSent,
    Outcome,
    ProbeResult,
    Refused,
    Throttled,
    Unknown,
    VoidResult,
)

T = TypeVar("T")
# A reference that no parcel has.
PROBE = "circuit-breaker-probe"
Repeats = Literal["dedup", "lookup", "none"]

Steps = Generator[CarrierRequest, CarrierResponse, T]


class Carrier:
    """A carrier's adapter. Stateless but for what it may cache under a lock: shared by all threads.

    `longest_work`: the longest time in seconds, by the carrier's documentation, that it may go on
    working on a request after we have left it. `settling`: seconds from the end of a call until a
    lookup's "absent" can be believed; not below `longest_work` (shipping.E010).
    """

    code: ClassVar[str]
    name: ClassVar[str]
    repeats: ClassVar[Repeats]
    # `void` names the label by the carrier's id alone.
    voids_by_id: ClassVar[bool] = False
    longest_work: ClassVar[float]
    settling: ClassVar[float] = 0.0
    promises: ClassVar[Promises] = Promises()
    methods: ClassVar[tuple[ShippingMethod, ...]]
    # Names of the credentials that a contract with this carrier holds.
    credential_names: ClassVar[tuple[str, ...]]

    def build_lookup(self, reference: str, credentials: Credentials) -> CarrierRequest:
        """Build the request that lists what the carrier holds under a reference."""
        raise NotImplementedError

    def parse_lookup(self, response: CarrierResponse, reference: str) -> LookupResult:
        """Read its answer."""
        raise NotImplementedError

    def build_probe(self, credentials: Credentials) -> CarrierRequest:
        """Build a request that buys nothing and shows whether the carrier is alive."""
        return self.build_lookup(PROBE, credentials)

    def announce(self, consignment: Consignment) -> Steps[Outcome]:
        """Buy a label."""
        raise NotImplementedError

    def lookup(self, reference: str, credentials: Credentials) -> Steps[LookupResult]:
        """Ask what the carrier holds under a reference; `Unknown` where it can't say."""
        if self.repeats != "lookup":
            return Unknown("no_lookup", f"{self.name} can't be asked by reference")
        response = yield self.build_lookup(reference, credentials)
        try:
            return self.parse_lookup(response, reference)
        except CarrierAnswerUnreadable as error:
            return Unknown("unreadable", str(error))

    def void(self, purchase: Purchase, credentials: Credentials) -> Steps[VoidResult]:
        """Cancel a label that was bought."""
        raise NotImplementedError

    def probe(self, credentials: Credentials) -> Steps[ProbeResult]:
        """Find out, without buying, whether the carrier is alive: for a half-open breaker."""
        response = yield self.build_probe(credentials)
        if self.is_sign_of_life(response):
            return Answered()
        return Unknown(classify.unknown_reason(response.status), f"HTTP {response.status}")

    def is_sign_of_life(self, response: CarrierResponse) -> bool:
        """Tell whether a probe's answer shows a working carrier: a refusal does, a 429 does not."""
        status = response.status
        return 200 <= status < 300 or (400 <= status < 500 and status not in (408, 429))

    def settle(
        self,
        response: CarrierResponse,
        refusal: Refused | None,
        phase: Phase = Phase.BUYING,
    ) -> Refused | Throttled | NotSent | Unknown:
        """Classify an answer that carries no label."""
        retry_after = response.headers.get("retry-after")
        return classify.answer(response.status, retry_after, refusal, phase, self.promises)


def unsettled_lookup(response: CarrierResponse) -> Unknown:
    """Turn any answer that is no list into "can't say": a lookup's failure proves nothing."""
    reason = classify.unknown_reason(response.status)
    wait = classify.seconds(response.headers.get("retry-after"), now=datetime.now(UTC))
    return Unknown(reason, f"HTTP {response.status} to a lookup", wait)
