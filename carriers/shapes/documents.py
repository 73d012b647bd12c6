"""Reading the parts that every carrier's answer has: documents, amounts, identifiers, refusals.

Each reader raises `CarrierAnswerUnreadable` rather than return something incomplete: a label that
doesn't print is found only in the warehouse, an unknown outcome within seconds. The same holds for
an identifier that can't be stored: cut, it names another label. A refusal's text is cut to fit.
"""

import base64
import binascii
from decimal import Decimal, InvalidOperation

from carriers.errors import CarrierAnswerUnreadable
from carriers.outcomes import Announced, Document, Format, Refused

# The columns that these are stored in; a test compares.
LONGEST_CARRIER_ID = 128
LONGEST_TRACKING_NUMBER = 64
LONGEST_REFUSAL = 500
# Why 1024: where PDF readers look for the end-of-file marker (ISO 32000-1, implementation note 18).
PDF_TAIL = 1024


def identifier(value: object, name: str, longest: int) -> str:
    """Read a non-empty string of printable characters: no NUL, no control, no lone surrogate."""
    if not isinstance(value, str) or not value.strip():
        raise CarrierAnswerUnreadable(f"{name} is missing")
    text = value.strip()
    if len(text) > longest or not text.isprintable():
        raise CarrierAnswerUnreadable(f"{name} is unusable")
    return text


def refused(code: str, message: object, *, credentials: bool = False) -> Refused:
    """Make a refusal from a carrier's answer, in characters and lengths that can be stored."""
    said = message if isinstance(message, str) else ""
    return Refused(_storable(code), _storable(said), credentials)


def _storable(text: str) -> str:
    # Cut before replacing: a message may be as long as an answer.
    cut = text[:LONGEST_REFUSAL].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return cut.encode("utf-8", "replace").decode().strip()


def amount(value: object, name: str) -> Decimal:
    """Read an amount; carriers write it as a string or as a number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise CarrierAnswerUnreadable(f"{name} is missing")
    try:
        number = Decimal(str(value))
    except InvalidOperation as error:
        raise CarrierAnswerUnreadable(f"{name} is no number") from error
    if not number.is_finite() or number < 0:
        raise CarrierAnswerUnreadable(f"{name} is no amount")
    return number


def document(value: object, format_: Format) -> Document:
    """Decode a base64 document and check that it is what it says, to its end."""
    if not isinstance(value, str):
        raise CarrierAnswerUnreadable(f"the {format_} label is missing")
    try:
        # XML carriers wrap their base64; other characters than white space are damage.
        content = base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise CarrierAnswerUnreadable(f"the {format_} label is no base64") from error
    if format_ == "pdf":
        whole = content.startswith(b"%PDF") and b"%%EOF" in content[-PDF_TAIL:]
    else:
        whole = b"^XA" in content and b"^XZ" in content
    if not whole:
        raise CarrierAnswerUnreadable(f"the {format_} label is broken")
    return Document("label", format_, content)


def announced(*, carrier_id: object, tracking: object, pdf: object, zpl: object) -> Announced:
    """Read the parts of a label; ZPL may be missing, but nothing may be damaged.

    The price is not read: an odd one would make a label unknown that was sold.
    """
    documents = [document(pdf, "pdf")]
    if zpl not in (None, ""):
        documents.append(document(zpl, "zpl"))
    return Announced(
        identifier(carrier_id, "the shipment's id", LONGEST_CARRIER_ID),
        identifier(tracking, "the tracking number", LONGEST_TRACKING_NUMBER),
        tuple(documents),
    )
