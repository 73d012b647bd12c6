"""How an exchange with a carrier can end.

Three ends, not two: a label, a refusal, or *unknown*. `NotSent` and `Throttled` are kept apart from
`Unknown` because only they may be tried again without asking the carrier first.
"""

from dataclasses import dataclass
from typing import Literal

Format = Literal["pdf", "zpl"]


@dataclass(frozen=True, slots=True)
class Document:
    """A printable document that came with a label; `content` was checked to be a `format`."""

    kind: str
    format: Format
    content: bytes


@dataclass(frozen=True, slots=True)
class Announced:
    """The carrier sold a label."""

    carrier_id: str
    tracking_number: str
    documents: tuple[Document, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The carrier refused in a documented way: nothing was made, and a repetition won't help.

    `credentials` marks a refusal of the account's credentials rather than of the parcel.
    """

    code: str
    message: str
    credentials: bool = False


@dataclass(frozen=True, slots=True)
class Throttled:
    """The carrier asks for fewer calls. `retry_after` in seconds, where it said so.

    `nothing_made` is the carrier's documented promise; without it this is as good as unknown.
    """

    retry_after: float | None
    nothing_made: bool


@dataclass(frozen=True, slots=True)
class NotSent:
    """No byte of a request that buys or voids was sent.

    `reason`: a `CarrierError.reason`, one of `backoff.OWN_GUARDS`, or how a login was answered.
    `retry_after` in seconds, where a guard of ours knows when asking again makes sense.
    """

    reason: str
    detail: str = ""
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class Unknown:
    """A label may or may not have been bought: reconcile, never just try again.

    `reason`: a `CarrierError.reason`, one of `classify.unknown_reason`, or no_lookup.
    `retry_after` in seconds, where the carrier said so.
    """

    reason: str
    detail: str = ""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The carrier knows the reference: its shipments, oldest first."""

    announced: tuple[Announced, ...]


@dataclass(frozen=True, slots=True)
class Absent:
    """The carrier answered that it has nothing under the reference, as of now."""


@dataclass(frozen=True, slots=True)
class Voided:
    """The carrier cancelled the label."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The carrier answered a probe sensibly: it is alive, whatever it said."""


Outcome = Announced | Refused | Throttled | NotSent | Unknown
LookupResult = Found | Absent | NotSent | Unknown
VoidResult = Voided | Refused | Throttled | NotSent | Unknown
ProbeResult = Answered | NotSent | Unknown
