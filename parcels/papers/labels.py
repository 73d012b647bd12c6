"""Labels in the forms that printers take: A6, four on an A4 sheet, ZPL, PNG."""

import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

import pypdfium2
from pypdf import PageObject, PdfReader, PdfWriter, Transformation
from rest_framework.exceptions import NotFound

log = logging.getLogger(__name__)

# Points, 72 to the inch.
A4 = (595.28, 841.89)
A6 = (297.64, 420.94)
QUADRANTS = 4
# Points. A4's longer side is 842; at 300 dpi a page of 2,000 by 2,000 takes 70 MB, and a PDF of 400
# bytes can ask for gigabytes.
LARGEST_SIDE = 2000
# PDFium is not thread-safe, and under ASGI each request is a thread.
_pdfium = Lock()


@contextmanager
def _readable() -> Iterator[None]:
    """Turn a carrier's broken PDF into "not there": in this form it isn't."""
    try:
        yield
    except MemoryError:  # says nothing of the document
        raise
    except Exception:  # damage is a ValueError, a ZeroDivisionError and others in pypdf
        log.warning("a document can't be read", exc_info=True)
        raise NotFound("The carrier's document can't be printed in this form.") from None


def one_after_another(labels: Sequence[bytes]) -> bytes:
    """Return one PDF with a page per label, each as the carrier made it."""
    if len(labels) == 1:
        return labels[0]
    writer = PdfWriter()
    with _readable():
        for label in labels:
            for page in PdfReader(io.BytesIO(label)).pages:
                writer.add_page(page)
        return _bytes(writer)


def on_sheets(labels: Sequence[bytes], start_from: int) -> bytes:
    """Return A4 sheets of four labels; the first label comes into quadrant `start_from` (0 to 3).

    Quadrants go left to right, then down: a half-used sheet can be fed again.
    """
    writer = PdfWriter()
    sheet: PageObject | None = None
    with _readable():
        readers = [PdfReader(io.BytesIO(label)) for label in labels]
        pages = [page for reader in readers for page in reader.pages]
        for position, given in enumerate(pages, start=start_from):
            # A copy in a writer of its own: a reader's page can't be turned, and two pages may have
            # the same content.
            page = PdfWriter().add_page(given)
            page.transfer_rotation_to_content()
            quadrant = position % QUADRANTS
            if sheet is None or quadrant == 0:
                sheet = writer.add_blank_page(*A4)
            sheet.merge_transformed_page(page, _placed(page, quadrant))
        return _bytes(writer)


def _placed(page: PageObject, quadrant: int) -> Transformation:
    # What is shown of the page may lie anywhere in it, and its crop box may go beyond it.
    left, bottom = map(max, page.cropbox.lower_left, page.mediabox.lower_left)
    right, top = map(min, page.cropbox.upper_right, page.mediabox.upper_right)
    scale = min(A6[0] / (right - left), A6[1] / (top - bottom))
    column, row = quadrant % 2, quadrant // 2
    at_origin = Transformation().translate(-left, -bottom).scale(scale)
    return at_origin.translate(column * A6[0], (1 - row) * A6[1])


def as_png(label: bytes, dpi: int) -> bytes:
    """Return the label's first page as a PNG."""
    with _pdfium, _readable():
        document = pypdfium2.PdfDocument(label)
        try:
            page = document[0]
            if max(page.get_size()) > LARGEST_SIDE:
                raise ValueError(f"a side of the page is over {LARGEST_SIDE} points")
            image = page.render(scale=dpi / 72, grayscale=True).to_pil()
        finally:
            document.close()
    output = io.BytesIO()
    image.save(output, "PNG", dpi=(dpi, dpi))
    return output.getvalue()


def _bytes(writer: PdfWriter) -> bytes:
    output = io.BytesIO()
    writer.write(output)
    return output.getvalue()
