"""Reading and writing XML for the two carriers that speak it."""

from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from starlette.requests import Request
from starlette.responses import Response

from carriers.simulator.parcel import ADDRESS_FIELDS, Malformed

XML = "text/xml"


async def xml_root(request: Request) -> ElementTree.Element:
    """Read a body's root element, tags without their namespaces; raises Malformed."""
    body = await request.body()
    # Without a document type there are no entities to expand: no bomb, no file to be read.
    if b"<!DOCTYPE" in body:
        raise Malformed("a document type is not accepted")
    try:
        root = ElementTree.fromstring(body)  # noqa: S314  see above
    except (ElementTree.ParseError, ValueError, LookupError):
        raise Malformed("the body is not XML") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def address(parent: ElementTree.Element, name: str) -> dict[str, str] | None:
    """Return the address in the child `name`, or None where there is none."""
    child = parent.find(name)
    if child is None:
        return None
    return {field: child.findtext(field) or "" for field in ADDRESS_FIELDS}


def element(tag: str, text: str) -> str:
    """Write `<tag>text</tag>`."""
    return f"<{tag}>{escape(text)}</{tag}>"


def attributes(**values: str) -> str:
    """Write attributes, each with a space before it."""
    return "".join(f" {name}={quoteattr(value)}" for name, value in values.items())


def xml_response(document: str, status: int = 200) -> Response:
    """Return a document as an answer."""
    text = f'<?xml version="1.0" encoding="utf-8"?>\n{document}'
    return Response(text.encode(), status, media_type=XML)
