"""Labels as PDF, ZPL and PNG; by parcel, by printer."""

import io
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from PIL import Image, ImageChops
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, RectangleObject
from reportlab.pdfgen import canvas

from parcels.papers.labels import A4, A6, _readable, as_png, on_sheets
from parcels.tests.factories import LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop

pytestmark = pytest.mark.django_db


def a6(text: str) -> bytes:
    """Return an A6 label with a text on it."""
    output = io.BytesIO()
    page = canvas.Canvas(output, pagesize=A6)
    page.drawString(20, 200, text)
    page.save()
    return output.getvalue()


def test_the_label_comes_as_the_carrier_made_it(shop: Shop) -> None:
    label = a6("one")
    parcel = LabelledParcelFactory.create(account=shop.account, label=label)
    for path in (f"parcels/{parcel.pk}/documents/label", f"labels/label_printer/{parcel.pk}"):
        response = shop.get(path)
        assert response["Content-Type"] == "application/pdf"
        assert response.content == label


@pytest.mark.parametrize(
    ("path", "accept", "media_type", "starts"),
    [
        ("", "*/*", "application/pdf", b"%PDF"),
        ("", "application/zpl", "application/zpl", b"^XA"),
        ("", "image/png", "image/png", b"\x89PNG"),
        ("", "text/html, application/pdf;q=0.8", "application/pdf", b"%PDF"),
        ("", "application/zpl;q=0.1, application/pdf", "application/pdf", b"%PDF"),
        ("", "application/pdf;q=0.2, IMAGE/*; Q=.5", "image/png", b"\x89PNG"),
        ("", "application/pdf, image/png", "application/pdf", b"%PDF"),
        ("", "image/png, */*", "image/png", b"\x89PNG"),
        ("", "*/*, image/png", "application/pdf", b"%PDF"),
        ("", "*/*;q=0.1, application/zpl;q=x", "application/zpl", b"^XA"),
        ("", "application/*, application/pdf;q=0", "application/zpl", b"^XA"),
        ("", "application/json", "application/pdf", b"%PDF"),
        ("", "", "application/pdf", b"%PDF"),
        ("?format=zpl", "application/pdf", "application/zpl", b"^XA"),
        ("?format=png&dpi=150", "*/*", "image/png", b"\x89PNG"),
        ("?format=pdf&dpi=72", "*/*", "application/pdf", b"%PDF"),
    ],
)
def test_forms(shop: Shop, path: str, accept: str, media_type: str, starts: bytes) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, label=a6("x"))
    response = shop.get(f"parcels/{parcel.pk}/documents/label{path}", Accept=accept)
    assert (response.status_code, response["Content-Type"]) == (200, media_type)
    assert response.content.startswith(starts)


def test_a_png_has_the_dots_that_were_asked_for(shop: Shop) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, label=a6("x"))
    response = shop.get(f"parcels/{parcel.pk}/documents/label?format=png&dpi=150")
    image = Image.open(io.BytesIO(response.content))
    assert image.width == pytest.approx(A6[0] / 72 * 150, abs=1)


@pytest.mark.parametrize(
    ("query", "accept", "status"),
    [
        ("?format=doc", "*/*", 400),
        ("?dpi=1000", "*/*", 400),
        ("?format=zpl&dpi=300", "*/*", 400),
        ("", "video/mp4", 406),
        ("", "application/pdf;q=0", 406),
        ("", "image/png;q=0.0, application/json;q=0", 406),
        ("", "application/zpl;q=nan", 406),
    ],
)
def test_forms_that_there_are_not(shop: Shop, query: str, accept: str, status: int) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, label=a6("x"))
    response = shop.get(f"parcels/{parcel.pk}/documents/label{query}", Accept=accept)
    assert response.status_code == status
    assert response.json()["error"]["code"] == status


@pytest.mark.parametrize("label", [b"%PDF-1.4 broken", b"", b"no PDF at all"])
def test_a_broken_label_is_404_where_it_must_be_read(shop: Shop, label: bytes) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, label=label or b"\0")
    two = f"{parcel.pk},{parcel.pk}"
    for path in (
        f"parcels/{parcel.pk}/documents/label?format=png",
        f"labels/normal_printer/{parcel.pk}",
        f"labels/label_printer?ids={two}",
    ):
        assert shop.get(path).status_code == 404


@pytest.mark.parametrize(
    ("whole", "damaged"),
    [
        (b"[ 0 0 297.64 420.94 ]", b"[ 0 0 0 0 ]"),  # ZeroDivisionError
        (b"[ 0 0 297.64 420.94 ]", b"null"),  # ValueError
        (b"trailer\n<<", b"trailer\n/<"),  # AttributeError
        (b"/FlateDecode", b"/FlateDec"),  # NotImplementedError
    ],
)
def test_no_damage_to_a_label_is_an_error_of_the_server(
    shop: Shop, whole: bytes, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    label = a6("x")
    assert whole in label
    good = LabelledParcelFactory.create(account=shop.account, label=label)
    bad = LabelledParcelFactory.create(account=shop.account, label=label.replace(whole, damaged))
    for path in (f"/{bad.pk}", f"?ids={good.pk},{bad.pk}"):
        assert shop.get(f"labels/normal_printer{path}").status_code == 404
    assert "can't be read" in caplog.text


def test_a_lack_of_memory_is_no_damage() -> None:
    with pytest.raises(MemoryError), _readable():
        raise MemoryError


@pytest.mark.parametrize(("side", "status"), [(2000, 200), (2001, 404)])
def test_a_page_over_the_limit_is_not_drawn(shop: Shop, side: int, status: int) -> None:
    for size in (f"{side} 10", f"10 {side}"):
        label = a6("x").replace(b"297.64 420.94", size.encode())
        parcel = LabelledParcelFactory.create(account=shop.account, label=label)
        path = f"parcels/{parcel.pk}/documents/label?format=png"
        assert shop.get(path).status_code == status


def test_no_label_no_document(shop: Shop) -> None:
    parcel = ParcelFactory.create(account=shop.account)
    assert shop.get(f"parcels/{parcel.pk}/documents/label").status_code == 404
    assert shop.get(f"parcels/{parcel.pk}/documents/cn23").status_code == 404
    assert shop.get(f"labels/{parcel.pk}").status_code == 404


def test_who_asks_where_labels_are_costs_none_of_their_bytes(shop: Shop) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    with CaptureQueriesContext(connection) as executed:
        assert shop.get(f"labels/{parcel.pk}").status_code == 200
        wanted = {"label": {"parcels": [parcel.pk]}}
        assert shop.post("labels", wanted).status_code == 200
    assert not [each["sql"] for each in executed if '"content"' in each["sql"]]


def test_a_sheet_begins_at_the_quadrant(shop: Shop) -> None:
    parcels = [
        LabelledParcelFactory.create(account=shop.account, label=a6(f"label {number}"))
        for number in range(3)
    ]
    ids = ",".join(str(parcel.pk) for parcel in parcels)
    response = shop.get(f"labels/normal_printer?ids={ids}&start_from=3")
    pages = PdfReader(io.BytesIO(response.content)).pages
    assert len(pages) == 2
    assert [float(side) for side in pages[0].mediabox[2:]] == pytest.approx(A4)
    assert "label 0" in pages[0].extract_text()
    assert "label 1" in pages[1].extract_text()
    assert _where(pages[0], "label 0") == pytest.approx((A6[0] + 20, 200), abs=1)
    assert _where(pages[1], "label 1") == pytest.approx((20, A6[1] + 200), abs=1)


WHOLE = (-50, -50, 900, 900)


def _block(
    left: float, bottom: float, *, rotation: int = 0, media: Any = None, crop: Any = None
) -> bytes:
    """Return an A6 label that shows a black block in its lower left, however its page lies."""
    width, height = A6 if rotation % 180 == 0 else A6[::-1]
    output = io.BytesIO()
    drawn = canvas.Canvas(output)
    drawn.translate(left + width / 2, bottom + height / 2)
    drawn.rotate(rotation)  # against the page's own
    drawn.translate(-A6[0] / 2, -A6[1] / 2)
    drawn.rect(0, 0, 150, 100, stroke=0, fill=1)
    drawn.save()
    writer = PdfWriter(clone_from=io.BytesIO(output.getvalue()))
    [page] = writer.pages
    page.rotation = rotation
    shown = (left, bottom, left + width, bottom + height)
    page.mediabox = RectangleObject(media or shown)
    if media or crop:
        page.cropbox = RectangleObject(crop or shown)
    output = io.BytesIO()
    writer.write(output)
    return output.getvalue()


def _sheet(label: bytes, quadrant: int) -> Image.Image:
    """Return the first sheet as it is printed, black or white: a point is a pixel."""
    drawn = Image.open(io.BytesIO(as_png(on_sheets([label], quadrant), 72)))
    return drawn.point(lambda grey: 255 if grey > 127 else 0)


LYING = {
    "moved": _block(100, 100),
    "moved left": _block(-30, 20),
    "rotated": _block(0, 0, rotation=90),
    "moved and rotated": _block(100, 50, rotation=270),
    "cropped": _block(100, 100, media=WHOLE),
    "cropped and turned": _block(100, 50, rotation=180, media=WHOLE),
    "cropped and rotated": _block(100, 50, rotation=90, media=WHOLE),
    "cropped beyond the page": _block(0, 0, crop=WHOLE),
}


@pytest.mark.parametrize("quadrant", range(4))
@pytest.mark.parametrize("how", LYING)
def test_a_label_is_in_its_quadrant_however_its_page_lies(how: str, quadrant: int) -> None:
    plain = _sheet(_block(0, 0), quadrant)
    left, top = quadrant % 2 * A6[0], quadrant // 2 * A6[1]
    place = (left, top + A6[1] - 100, left + 150, top + A6[1])
    dark = ImageChops.invert(plain).getbbox()
    assert dark == pytest.approx(place, abs=1.5)
    different = ImageChops.difference(plain, _sheet(LYING[how], quadrant)).histogram()[255]
    assert different <= 500, "more than an edge of the block"


def test_two_pages_of_one_content_are_both_printed() -> None:
    label = _block(100, 100)
    writer = PdfWriter(clone_from=io.BytesIO(label))
    copy = writer.add_page(writer.pages[0])
    copy[NameObject("/Contents")] = writer.pages[0].raw_get("/Contents")
    output = io.BytesIO()
    writer.write(output)
    assert as_png(on_sheets([output.getvalue()], 0), 72) == as_png(on_sheets([label] * 2, 0), 72)


def test_several_labels_are_one_document(shop: Shop) -> None:
    parcels = [LabelledParcelFactory.create(account=shop.account, label=a6("x")) for _ in range(2)]
    answer = shop.post("labels", {"label": {"parcels": [parcel.pk for parcel in parcels]}})
    link = answer.json()["label"]["label_printer"].removeprefix("http://testserver/api/v2/")
    assert len(PdfReader(io.BytesIO(shop.get(link).content)).pages) == 2
    assert len(answer.json()["label"]["normal_printer"]) == 4


@pytest.mark.parametrize(
    "payload",
    [
        {},
        [],
        "x",
        {"label": []},
        {"label": {"parcels": []}},
        {"label": {"parcels": [""]}},
        {"label": {"parcels": [" ", ","]}},
        {"label": {"parcels": ["a"]}},
        {"label": {"parcels": [{}]}},
    ],
)
def test_bad_label_requests_are_400(shop: Shop, payload: object) -> None:
    assert shop.post("labels", payload).status_code == 400


@pytest.mark.parametrize("wanted", [["{0},{0}"], ["", "{0}"], ["{0},{0}", ""], ["{0},"]])
def test_each_of_the_parcels_is_one_id(shop: Shop, wanted: list[str]) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account)
    ids = [each.format(parcel.pk) for each in wanted]
    answer = shop.post("labels", {"label": {"parcels": ids}})
    assert answer.status_code == 400
    assert "label.parcels" in answer.json()["error"]["message"]
    assert shop.post("labels", {"label": {"parcels": [f" {parcel.pk} "]}}).status_code == 200


def test_a_bad_quadrant_is_400(shop: Shop) -> None:
    parcel = LabelledParcelFactory.create(account=shop.account, label=a6("x"))
    for quadrant in ("4", "-1", "x"):
        path = f"labels/normal_printer/{parcel.pk}?start_from={quadrant}"
        assert shop.get(path).status_code == 400


def _where(page: object, text: str) -> tuple[float, float]:
    found: list[tuple[float, float]] = []

    def visit(words: str, cm: list[float], tm: list[float], *_: object) -> None:
        if text in words:
            x, y = tm[4], tm[5]
            found.append((cm[0] * x + cm[2] * y + cm[4], cm[1] * x + cm[3] * y + cm[5]))

    page.extract_text(visitor_text=visit)  # type: ignore[attr-defined] # a pypdf page
    return found[0]
