"""XML from outside: what must not get in."""

from xml.etree import ElementTree as ET

import pytest

from carriers.errors import CarrierAnswerUnreadable
from carriers.messages import Address
from carriers.shapes import xml_body

LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha">'
    + "".join(
        f'<!ENTITY a{n} "{"&a" + str(n - 1) + ";" if n > 1 else "&a;"}">' for n in range(1, 9)
    )
    + "]><lolz>&a8;</lolz>"
)
BAD = [
    (LAUGHS.encode(), "entities that multiply"),
    (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "an external subset"),
    (LAUGHS.encode("utf-16"), "hidden from a search in the bytes"),
    (LAUGHS.encode("utf-16-le"), "the same without its mark"),
    (b'<?xml version="1.0" encoding="utf-7"?>+ADwAIQ-DOCTYPE a+AD4-<a/>', "another disguise"),
    (b"", "nothing"),
    (b"<a>", "cut"),
    (b"\xff\xfe\xfd", "no text"),
    (b"<a>&undeclared;</a>", "an entity that nobody declared"),
    (b"<a>" + b" " * 5_000_001 + b"</a>", "too large"),
]


@pytest.mark.parametrize(("body", "remark"), BAD, ids=[remark for _, remark in BAD])
def test_what_is_refused(body, remark):
    with pytest.raises(CarrierAnswerUnreadable):
        xml_body.load(body)


def test_what_is_read():
    root = xml_body.load('\ufeff<n:a xmlns:n="urn:n"><n:b> é </n:b></n:a>'.encode())
    assert xml_body.local_name(root) == "a"
    assert xml_body.text(root, "b") == "é"
    assert xml_body.text(root, "c") is None


@pytest.mark.parametrize("odd", ["\0", "\x0b", "\x1f", "\ud800", "\ufffe", "\uffff"])
def test_what_xml_cannot_carry_is_written_as_a_blank(odd):
    """As a vertical tab in a name that was copied from a spreadsheet."""
    root = ET.Element("order", note=f"a{odd}b")
    xml_body.add_address(root, "receiver", Address(name=f"Ada{odd}é\t😀"))
    written = xml_body.load(xml_body.dump(root))
    assert (written.get("note"), xml_body.text(written, "name")) == ("a b", "Ada é\t😀")


def test_the_guard_is_what_keeps_entities_out(monkeypatch):
    """The negative control: expat itself expands what a document declares."""
    monkeypatch.setattr(xml_body, "FORBIDDEN", ())
    root = xml_body.load(b'<!DOCTYPE a [<!ENTITY e "expanded">]><a>&e;</a>')
    assert root.text == "expanded"
