"""Customs papers as PDFs: what the shop has declared, laid out as customs expect it."""

import io
import unicodedata
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape

from reportlab.lib import colors
from reportlab.lib.pagesizes import A4, A6
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import Flowable, Paragraph, SimpleDocTemplate, Spacer, Table

from parcels.models import Parcel
from parcels.representation import country_payload, divide_address

_PAGES = {"cn23": A6, "cn23-default": A4, "commercial-invoice": A4}
# Points. What fits nine lines of goods on an A6 page, and fills an A4 page as a letter does.
_TEXT = {A6: 6, A4: 10}
_MARGIN = {A6: 12, A4: 48}
# Of the table's width: description, quantity, weight, value, HS code, origin.
_COLUMNS = (0.34, 0.1, 0.14, 0.14, 0.16, 0.12)
# The dialect's customs_shipment_type, in the CN23's words.
_CATEGORIES = ("Gift", "Documents", "Sale of goods", "Commercial sample", "Returned goods")
_SALE_OF_GOODS = 2


def customs_paper(kind: str, parcel: Parcel) -> bytes:
    """Return the document. The same parcel gives the same bytes."""
    page = _PAGES[kind]
    style = ParagraphStyle("text", fontSize=_TEXT[page], leading=_TEXT[page] * 1.2)
    invoice = kind == "commercial-invoice"
    parts = (_invoice_head if invoice else _declaration_head)(parcel)
    flow: list[Flowable] = [_paragraph(part, style) for part in parts]
    flow += [Spacer(1, style.leading), _goods(parcel, style, page), Spacer(1, style.leading)]
    flow += [_paragraph(part, style) for part in _foot(parcel)]
    output = io.BytesIO()
    margin = _MARGIN[page]
    SimpleDocTemplate(
        output,
        pagesize=page,
        leftMargin=margin,
        rightMargin=margin,
        topMargin=margin,
        bottomMargin=margin,
        title=kind,
        invariant=1,  # no time of making in it: made twice, it is the same document
    ).build(flow)
    return output.getvalue()


def _declaration_head(parcel: Parcel) -> list[str]:
    category = _SALE_OF_GOODS
    if parcel.customs_shipment_type is not None:
        category = parcel.customs_shipment_type
    return [
        "CUSTOMS DECLARATION CN23",
        f"Parcel: {parcel.tracking_number}",
        f"From: {_sender(parcel)}",
        f"To: {_receiver(parcel)}",
        f"Category: {_CATEGORIES[category]}",
        f"Invoice: {parcel.customs_invoice_nr or '-'}",
    ]


def _invoice_head(parcel: Parcel) -> list[str]:
    return [
        "COMMERCIAL INVOICE",
        f"Invoice number: {parcel.customs_invoice_nr or parcel.order_number or parcel.pk}",
        f"Order: {parcel.order_number or '-'}",
        f"Shipped under: {parcel.tracking_number}",
        f"Seller: {_sender(parcel)}",
        f"Buyer: {_receiver(parcel)}",
    ]


def _foot(parcel: Parcel) -> list[str]:
    currency = parcel.total_order_value_currency or "EUR"
    return [
        f"Total value: {_total(parcel):z.2f} {currency}",
        f"Gross weight: {parcel.weight:.3f} kg",
        "I certify that the particulars given are correct.",
        "Date and signature: ______________________",
    ]


def _goods(parcel: Parcel, style: ParagraphStyle, page: tuple[float, float]) -> Table:
    width = page[0] - 2 * _MARGIN[page] - 12  # the frame's own padding, 6 points on each side
    head = ["Description", "Qty", "kg", "Value", "HS code", "Origin"]
    rows = [head, *(_row(item) for item in parcel.parcel_items)]
    table = Table(
        [[_paragraph(cell, style) for cell in row] for row in rows],
        colWidths=[share * width for share in _COLUMNS],
        repeatRows=1,
    )
    table.setStyle(
        [
            ("GRID", (0, 0), (-1, -1), 0.5, colors.black),
            ("LEFTPADDING", (0, 0), (-1, -1), 2),
            ("RIGHTPADDING", (0, 0), (-1, -1), 2),
        ]
    )
    return table


def _row(item: dict[str, Any]) -> list[str]:
    return [
        item["description"],
        str(item["quantity"]),
        item.get("weight") or "-",
        item.get("value") or "-",
        item["hs_code"] or "-",
        item["origin_country"] or "-",
    ]


def _total(parcel: Parcel) -> Decimal:
    if parcel.total_order_value is not None:
        return parcel.total_order_value
    lines = (Decimal(item.get("value") or 0) * item["quantity"] for item in parcel.parcel_items)
    return sum(lines, Decimal(0))


def _receiver(parcel: Parcel) -> str:
    street, number = divide_address(parcel.address, parcel.house_number)
    return _joined(
        parcel.name,
        parcel.company_name,
        f"{street} {number}",
        parcel.address_2,
        f"{parcel.postal_code} {parcel.city}",
        country_payload(parcel.country)["name"],
    )


def _sender(parcel: Parcel) -> str:
    given = parcel.from_address or {"name": parcel.account.name}
    country = given.get("country", "")
    return _joined(
        given.get("name", ""),
        given.get("company_name", ""),
        f"{given.get('address_1', '')} {given.get('house_number', '')}",
        f"{given.get('postal_code', '')} {given.get('city', '')}",
        country_payload(country)["name"] if country else "",
    )


def _joined(*parts: str) -> str:
    return ", ".join(part.strip() for part in parts if part.strip())


def _paragraph(text: str, style: ParagraphStyle) -> Paragraph:
    """Return a paragraph that shows the text as it is: what a client sent is no markup."""
    return Paragraph(escape("".join(map(_letter, text))), style)


def _letter(char: str) -> str:
    """Return the character if the PDF's built-in font has it, else what it comes closest to."""
    for candidate in (char, unicodedata.normalize("NFKD", char)[:1]):
        if candidate.isprintable() and candidate.encode("cp1252", "ignore"):
            return candidate
    return "?" if char.isprintable() else " "
