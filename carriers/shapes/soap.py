"""SOAP 1.1 envelopes and faults."""

from dataclasses import dataclass
from xml.etree import ElementTree as ET

from carriers.errors import CarrierAnswerUnreadable
from carriers.messages import CarrierResponse
from carriers.shapes import xml_body

NAMESPACE = "http://schemas.xmlsoap.org/soap/envelope/"

ET.register_namespace("soap", NAMESPACE)


@dataclass(frozen=True, slots=True)
class Fault:
    """A SOAP fault; `code` without its namespace prefix, e.g. `Client.Authentication`."""

    code: str
    message: str

    @property
    def is_refusal(self) -> bool:
        """Tell whether the fault blames the request (SOAP 1.1, 4.4.1)."""
        return self.code == "Client" or self.code.startswith("Client.")


def envelope(call: ET.Element) -> bytes:
    """Wrap a call."""
    root = ET.Element(f"{{{NAMESPACE}}}Envelope")
    ET.SubElement(root, f"{{{NAMESPACE}}}Body").append(call)
    return xml_body.dump(root)


def fault(response: CarrierResponse) -> Fault | None:
    """Read a fault; None where the answer is none, or can't be read."""
    try:
        root = xml_body.load(response.body)
    except CarrierAnswerUnreadable:
        return None
    code = xml_body.text(root, "faultcode")
    if not code:
        return None
    return Fault(code.rpartition(":")[2], xml_body.text(root, "faultstring") or "")


def result(response: CarrierResponse, name: str) -> ET.Element:
    """Take the result element of an answer."""
    if response.status == 200:
        element = xml_body.find(xml_body.load(response.body), name)
        if element is not None:
            return element
    raise CarrierAnswerUnreadable(f"the answer holds no {name}")
