"""Customs papers: for what leaves the customs union, made once, as often as asked for."""

import io
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pypdf import PdfReader

from parcels.models import Document, Parcel
from parcels.papers import documents
from parcels.services.forget import forget
from parcels.statuses import Status
from parcels.tests.factories import LabelledParcelFactory
from parcels.tests.requests import Shop

pytestmark = pytest.mark.django_db
ITEM = {
    "description": "Book <b>& pen",
    "quantity": 2,
    "value": "6.50",
    "weight": "0.400",
    "hs_code": "490199",
    "origin_country": "NL",
    "sku": "B1",
}
KINDS = ["cn23", "cn23-default", "commercial-invoice"]


def parcel_to(shop: Shop, country: str, **values: Any) -> Parcel:
    values = {"parcel_items": [ITEM], "account": shop.account, "country": country} | values
    return LabelledParcelFactory.create(**values)


def text_of(pdf: bytes) -> str:
    return " ".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)


def test_a_parcel_that_leaves_the_union_has_papers(shop: Shop) -> None:
    parcel = parcel_to(shop, "CH", customs_invoice_nr="F-17", from_address={"country": "NL"})
    shown = shop.get(f"parcels/{parcel.pk}").json()["parcel"]
    assert [document["type"] for document in shown["documents"]] == ["label", *KINDS]
    assert set(shown["customs_declaration"]) == {"normal_printer", "label_printer"}
    for document in shown["documents"][1:]:
        answer = shop.get(document["link"].removeprefix("http://testserver/api/v2/"))
        assert answer["Content-Type"] == "application/pdf"
        text = text_of(answer.content)
        assert "Book <b>& pen" in text
        assert "490199" in text
        assert "F-17" in text
        assert "13.00" in text
        assert "Switzerland" in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_paper_is_made_once(shop: Shop, kind: str) -> None:
    parcel = parcel_to(shop, "GB")
    path = f"parcels/{parcel.pk}/documents/{kind}"
    first = shop.get(path).content
    assert shop.get(path).content == first
    assert Document.objects.filter(parcel=parcel, type=kind).count() == 1
    Document.objects.filter(type=kind).delete()
    assert shop.get(path).content == first


def test_sizes_are_what_the_list_says(shop: Shop) -> None:
    parcel = parcel_to(shop, "US")
    for kind, width in (("cn23", 297.64), ("cn23-default", 595.28)):
        pdf = shop.get(f"parcels/{parcel.pk}/documents/{kind}").content
        page = PdfReader(io.BytesIO(pdf)).pages[0]
        assert float(page.mediabox.width) == pytest.approx(width, abs=1)


@pytest.mark.parametrize(
    ("country", "values"),
    [
        ("NL", {}),
        ("MC", {}),
        ("CH", {"parcel_items": []}),
        ("CH", {"from_address": {"country": "GB"}}),
        ("CH", {"status": Status.CANCELLED}),
        ("CH", {"status": Status.ANNOUNCEMENT_FAILED, "tracking_number": ""}),
    ],
)
def test_others_have_none(shop: Shop, country: str, values: dict[str, Any]) -> None:
    parcel = parcel_to(shop, country, **values)
    assert shop.get(f"parcels/{parcel.pk}").json()["parcel"]["customs_declaration"] == {}
    for kind in KINDS:
        assert shop.get(f"parcels/{parcel.pk}/documents/{kind}").status_code == 404


def test_what_only_the_carrier_can_give_is_served_when_it_did(shop: Shop) -> None:
    parcel = parcel_to(shop, "CH")
    for kind in ("qr", "cp71", "air-waybill"):
        path = f"parcels/{parcel.pk}/documents/{kind}"
        assert shop.get(path).status_code == 404
        Document.objects.create(parcel=parcel, type=kind, format="pdf", content=b"%PDF-1.4")
        assert shop.get(path).content == b"%PDF-1.4"


def test_a_receiver_that_is_forgotten_while_a_paper_is_drawn_stays_so(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel, draw = parcel_to(shop, "CH"), documents.customs_paper

    def slowly(*given: Any) -> bytes:
        forget([parcel.pk])
        return draw(*given)

    monkeypatch.setattr(documents, "customs_paper", slowly)
    assert shop.get(f"parcels/{parcel.pk}/documents/cn23").status_code == 404
    assert not Document.objects.filter(parcel=parcel).exists()


def test_no_paper_is_made_when_documents_are_no_longer_kept(shop: Shop, settings: Any) -> None:
    announced = timezone.now() - timedelta(seconds=settings.DOCUMENT_KEEP)
    path = f"parcels/{parcel_to(shop, 'CH', date_announced=announced).pk}/documents/cn23"
    assert shop.get(path).status_code == 404
    assert not Document.objects.filter(type="cn23").exists()


def test_papers_come_as_png_and_not_as_zpl(shop: Shop) -> None:
    path = f"parcels/{parcel_to(shop, 'CH').pk}/documents/cn23"
    assert shop.get(f"{path}?format=png").content.startswith(b"\x89PNG")
    assert shop.get(f"{path}?format=zpl").status_code == 404


def test_any_text_and_any_number_of_goods_can_be_drawn(shop: Shop) -> None:
    odd = ITEM | {"description": "書 📦 \t\u202e Łódź <para>" + "x" * 200, "value": None}
    parcel = parcel_to(shop, "CH", parcel_items=[odd] * 60, name="<font color='red'>")
    pages = PdfReader(io.BytesIO(shop.get(f"parcels/{parcel.pk}/documents/cn23").content)).pages
    assert len(pages) > 1
    assert "?ódz" in text_of(shop.get(f"parcels/{parcel.pk}/documents/cn23-default").content)


def test_another_account_gets_none(shop: Shop, other_shop: Shop) -> None:
    parcel = parcel_to(shop, "CH")
    assert other_shop.get(f"parcels/{parcel.pk}/documents/cn23").status_code == 404
    assert not Document.objects.filter(type="cn23").exists()


def test_declarations_are_printed_as_the_dialect_prints_them(shop: Shop) -> None:
    first, second = parcel_to(shop, "CH"), parcel_to(shop, "US")
    path = "customs_declaration/normal_printer"
    alone = shop.get(f"{path}/{first.pk}")
    assert alone["Content-Type"] == "application/pdf"
    assert alone.content == shop.get(f"parcels/{first.pk}/documents/cn23-default").content
    both = shop.get(f"{path}?ids={second.pk},{first.pk}&start_from=0")
    pages = PdfReader(io.BytesIO(both.content)).pages
    assert ["United States" in page.extract_text() for page in pages] == [True, False]


@pytest.mark.parametrize(
    ("query", "status"), [("", 400), ("?ids=x", 400), ("?ids={inside}", 404), ("/{inside}", 404)]
)
def test_what_has_no_declaration_is_an_error(shop: Shop, query: str, status: int) -> None:
    inside = parcel_to(shop, "NL").pk
    answer = shop.get(f"customs_declaration/normal_printer{query.format(inside=inside)}")
    assert answer.status_code == status
