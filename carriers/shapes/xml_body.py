"""Reading XML from outside, and writing it.

A carrier's XML is untrusted. Python's expat expands entities that a document declares itself ("a
billion laughs") and that is the only harm it can do: it fetches nothing external. All of it needs
a DOCTYPE, which no carrier's protocol has, so a document with one is refused unread. The check is
made on the decoded text, and the parser is given that text, so that an encoding declaration can't
smuggle a DOCTYPE past it. One thing could: expat takes "<", NUL, "?" for UTF-16 even in a `str`, so
a NUL is refused, too; XML has no use for it.
"""

import re
from dataclasses import asdict
from xml.etree import ElementTree as ET

from carriers.call import LARGEST_BODY
from carriers.errors import CarrierAnswerUnreadable
from carriers.messages import Address

FORBIDDEN = ("<!DOCTYPE", "<!ENTITY", "\0")
# Other characters than XML's own (XML 1.0, 2.2): not even as references can a document have them.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def load(body: bytes) -> ET.Element:
    """Parse a document that declares nothing."""
    if len(body) > LARGEST_BODY:  # the transports' limit: others may feed an adapter, too
        raise CarrierAnswerUnreadable("the answer is too large")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CarrierAnswerUnreadable("the answer is not UTF-8") from error
    if any(word in text for word in FORBIDDEN):
        raise CarrierAnswerUnreadable("the answer declares a document type")
    try:
        return ET.fromstring(text)  # noqa: S314 - guarded above
    except (ET.ParseError, ValueError) as error:
        raise CarrierAnswerUnreadable("the answer is no XML") from error


def dump(root: ET.Element) -> bytes:
    """Write a document; what XML can't carry, as a name's vertical tab, is a blank in it."""
    text = _NO_XML.sub(" ", ET.tostring(root, encoding="unicode"))
    return b"<?xml version='1.0' encoding='utf-8'?>\n" + text.encode()


def local_name(element: ET.Element) -> str:
    """Name an element without its namespace: carriers change prefixes without notice."""
    return element.tag.rpartition("}")[2]


def find(root: ET.Element, name: str) -> ET.Element | None:
    """Find the first element of a local name, the root included."""
    return next((element for element in root.iter() if local_name(element) == name), None)


def text(root: ET.Element, name: str) -> str | None:
    """Read the text of the first element of a local name."""
    element = find(root, name)
    return None if element is None else (element.text or "").strip()


def add_address(parent: ET.Element, name: str, address: Address) -> None:
    """Append an address, an element per field."""
    element = ET.SubElement(parent, name)
    for field, value in asdict(address).items():
        ET.SubElement(element, field).text = value
