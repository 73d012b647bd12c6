"""Labels: a real A6 PDF and ZPL II, each with a Code 128 of the tracking number.

Names come in every script and must never break a label. The PDF uses a built-in font (nothing to
load, 0.6 ms a label), which has the letters of Windows-1252: other Latin letters lose their
accents, and what is left becomes "?". The ZPL is UTF-8 (`^CI28`) and keeps every letter.
"""

import io
import unicodedata
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass

from reportlab.graphics.barcode.code128 import Code128
from reportlab.lib.pagesizes import A6
from reportlab.pdfgen.canvas import Canvas

from carriers.simulator.bookings import Booking
from carriers.simulator.catalogue import CATALOGUE

# What label printers print, and the three dots that make a bar of 0.375 mm: the field's usual.
DPI = 203
_BAR = 3 * 72 / DPI
_MARGIN = 20.0
# Longer lines leave an A6 sheet at 11 points.
_LONGEST_LINE = 44


@dataclass(frozen=True, slots=True)
class Label:
    """The two documents of one booking."""

    pdf: bytes
    zpl: bytes


def render(booking: Booking) -> Label:
    """Draw both documents; the same booking always gives the same bytes."""
    spec = CATALOGUE[booking.carrier]
    heading = f"{spec.name} - {spec.products[booking.product].name}"
    lines = _address_lines(booking.receiver)
    return Label(
        pdf=_pdf(heading, lines, booking.tracking_number, booking.reference),
        zpl=_zpl(heading, lines, booking.tracking_number, booking.reference),
    )


def encoded(booking: Booking) -> tuple[str, str]:
    """Draw both documents in base64, which every wire format has."""
    label = render(booking)
    return b64encode(label.pdf).decode(), b64encode(label.zpl).decode()


def _address_lines(receiver: Mapping[str, str] | None) -> list[str]:
    if receiver is None:
        return ["(address no longer kept)"]
    lines = [
        receiver["name"],
        receiver["company"],
        f"{receiver['street']} {receiver['house_number']}",
        receiver["street_2"],
        f"{receiver['postal_code']} {receiver['city']}",
        f"{receiver['state']} {receiver['country']}",
    ]
    return [_one_line(line) for line in lines if line.strip()]


def _one_line(text: str) -> str:
    """Drop what isn't printable: control characters, and halves of surrogate pairs."""
    kept = (char if char.isprintable() else " " for char in text)
    return " ".join("".join(kept).split())[:_LONGEST_LINE]


def _pdf(heading: str, lines: list[str], tracking_number: str, reference: str) -> bytes:
    width, height = A6
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A6, pageCompression=0, invariant=1)
    canvas.setFont("Helvetica-Bold", 12)
    canvas.drawString(_MARGIN, height - 30, windows_1252(heading))
    text = canvas.beginText(_MARGIN, height - 70)
    text.setFont("Helvetica", 11)
    for line in lines:
        text.textLine(windows_1252(line))
    canvas.drawText(text)
    # quiet=1 keeps the blank zone at both ends without which no scanner finds the bars.
    bars = Code128(tracking_number, barHeight=80, barWidth=_BAR, humanReadable=False, quiet=1)
    bars.drawOn(canvas, (width - bars.width) / 2, 70)
    canvas.setFont("Helvetica", 11)
    canvas.drawCentredString(width / 2, 52, tracking_number)
    canvas.setFont("Helvetica", 8)
    canvas.drawString(_MARGIN, 20, windows_1252(reference))
    canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def windows_1252(text: str) -> str:
    """Return `text` in the letters that the PDF's font has."""
    return "".join(map(_letter, unicodedata.normalize("NFC", text)))


def _letter(char: str) -> str:
    for candidate in (char, unicodedata.normalize("NFKD", char)[:1]):
        try:
            candidate.encode("cp1252")
        except UnicodeEncodeError:
            continue
        return candidate
    return "?"


def _zpl(heading: str, lines: list[str], tracking_number: str, reference: str) -> bytes:
    fields = [f"^FO40,50^A0N,34,34^FH^FD{_zpl_text(heading)}^FS"]
    for row, line in enumerate(lines):
        fields.append(f"^FO40,{130 + 40 * row}^A0N,30,30^FH^FD{_zpl_text(line)}^FS")
    # ^BY3: three dots a bar, as in the PDF. A6 at 203 dpi is 839 x 1184 dots.
    fields.append(f"^FO60,760^BY3^BCN,220,Y,N,N^FD{tracking_number}^FS")
    fields.append(f"^FO40,1120^A0N,22,22^FH^FD{_zpl_text(reference)}^FS")
    document = "\n".join(["^XA", "^CI28", "^PW839", "^LL1184", *fields, "^XZ", ""])
    return document.encode()


def _zpl_text(text: str) -> str:
    """Write the characters that command ZPL as ^FH hexadecimals; an address is not a program."""
    return "".join(f"_{ord(char):02X}" if char in "^~_\\" else char for char in text)
