"""A client for each wire format, written from README.md and not from the code."""

import contextlib
import json
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import aiohttp

from carriers.simulator.simulator import Simulator

RECEIVER = {
    "name": "Test Receiver",
    "company": "",
    "street": "Havenstraat",
    "house_number": "12",
    "street_2": "",
    "postal_code": "3511 AB",
    "city": "Utrecht",
    "state": "",
    "country": "NL",
    "email": "a@b.nl",
    "phone": "",
}
PRODUCT = {"postnl": 8, "tortoise": 10, "colibri": 20, "lantern": 30, "meridian": 40}


@dataclass
class Answer:
    """What came back: `data` is the decoded body, or the body itself."""

    status: int
    data: Any
    headers: dict[str, str] = field(default_factory=dict)


class Clients:
    def __init__(self, simulator: Simulator, session: aiohttp.ClientSession) -> None:
        self.simulator = simulator
        self.session = session
        self.token = ""

    def url(self, code: str) -> str:
        return self.simulator.listeners[code].url

    async def control(self, method: str, path: str, body: Any = None) -> Answer:
        return await self.request(method, f"{self.simulator.control.url}{path}", json=body)

    async def request(self, method: str, url: str, **options: Any) -> Answer:
        async with self.session.request(method, url, **options) as response:
            raw = await response.read()
            data: Any = raw
            if "json" in response.headers.get("content-type", ""):
                with contextlib.suppress(ValueError):  # a fault may have been at it
                    data = json.loads(raw)
            return Answer(response.status, data, dict(response.headers))

    async def buy(self, code: str, reference: str, company: str = "", **changes: Any) -> Answer:
        receiver = {**RECEIVER, "company": company, **changes.pop("receiver", {})}
        grams = changes.pop("grams", 2000)
        product = changes.pop("product", PRODUCT[code])
        if code == "colibri":
            return await self.buy_items(
                [{"client_id": reference, "product": product, "to": receiver, "grams": grams}]
            )
        if code == "lantern":
            return await self.soap_create(reference, product, grams, receiver)
        if code == "meridian":
            return await self.order(reference, product, grams, receiver)
        body = {
            "reference": reference,
            "product": product,
            "receiver": receiver,
            "sender": RECEIVER,
            "weight_g": grams,
        }
        return await self.request(
            "POST", f"{self.url(code)}/shipments", json=body, headers=bearer()
        )

    async def find(self, code: str, reference: str) -> list[Any]:
        url = f"{self.url(code)}/shipments"
        answer = await self.request("GET", url, params={"reference": reference}, headers=bearer())
        shipments: list[Any] = answer.data["shipments"]
        return shipments

    async def buy_items(self, items: list[Any]) -> Answer:
        url = f"{self.url('colibri')}/v1/labels"
        return await self.request("POST", url, json={"items": items}, headers={"X-Api-Key": "k"})

    async def void_items(self, **barcodes: str) -> Answer:
        url = f"{self.url('colibri')}/v1/voids"
        items = [{"client_id": name, "barcode": barcode} for name, barcode in barcodes.items()]
        return await self.request("POST", url, json={"items": items}, headers={"X-Api-Key": "k"})

    async def soap(self, action: str, inner: str) -> Answer:
        body = (
            '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>'
            f"<{action}>{inner}</{action}></s:Body></s:Envelope>"
        )
        headers = {"Content-Type": "text/xml", "SOAPAction": f'"{action}"'}
        url = f"{self.url('lantern')}/soap"
        answer = await self.request("POST", url, data=body.encode(), headers=headers)
        with contextlib.suppress(ElementTree.ParseError):  # a fault may have been at it
            answer.data = ElementTree.fromstring(answer.data)[0][0]
        return answer

    async def soap_login(self) -> None:
        answer = await self.soap("Login", "<username>u</username><password>p</password>")
        self.token = answer.data.findtext("token")

    async def soap_create(
        self, reference: str, product: int, grams: int, receiver: dict[str, str]
    ) -> Answer:
        if not self.token:
            await self.soap_login()
        inner = (
            f"<token>{self.token}</token><customer_reference>{reference}</customer_reference>"
            f"<product>{product}</product><grams>{grams}</grams>"
            f"<receiver>{xml_address(receiver)}</receiver><sender/>"
        )
        return await self.soap("CreateShipment", inner)

    async def order(
        self, reference: str, product: int, grams: int, receiver: dict[str, str]
    ) -> Answer:
        body = (
            f'<order reference="{reference}" product="{product}" grams="{grams}">'
            f"<receiver>{xml_address(receiver)}</receiver><sender/></order>"
        )
        url = f"{self.url('meridian')}/orders"
        return await self.request("POST", url, data=body.encode(), headers=basic())

    async def order_label(self, reference: str) -> Answer:
        url = f"{self.url('meridian')}/orders/{quote(reference, safe='')}/label"
        return await self.request("GET", url, headers=basic())

    def booked(self, reference: str) -> int:
        """Count a reference's purchases in the ledger's own file."""
        path = self.simulator._settings.ledger
        entries = map(json.loads, path.read_text().splitlines())
        return sum(e["event"] == "booked" and e["reference"] == reference for e in entries)


def bearer() -> dict[str, str]:
    return {"Authorization": "Bearer key"}


def basic(user: str = "user:password") -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(user.encode()).decode()}"}


def xml_address(fields: dict[str, str]) -> str:
    return "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
