"""A receiver is forgotten: on request, and by age. What books and bills need stays."""

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection, models
from django.utils import timezone

from parcels.models import (
    Account,
    Announcement,
    Attempt,
    Document,
    Hold,
    IdempotencyKey,
    Parcel,
    State,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services import forget
from parcels.services.forget import forget_old_documents, forget_old_parcels
from parcels.statuses import Status
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop, body

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_broker", "deleted_answers")]
# A word that nothing else has; with a capital, as e-mail addresses are compared without case.
MARK = "Quaxolotl"
EMAIL = f"{MARK}@mail.example"
# What a shop needs to find its parcel again, and the bills its numbers.
KEPT = {
    *("order_number", "external_reference", "external_order_id", "external_shipment_id"),
    *("shipment_uuid", "shipping_method_checkout_name", "carrier", "country", "tracking_number"),
    *("total_order_value_currency", "customs_invoice_nr"),
}
RECEIVER = {
    "name": f"Ada {MARK}",
    "company_name": MARK,
    "address": f"{MARK}straat",
    "address_2": MARK,
    "house_number": f"12 {MARK}",
    "city": MARK,
    "postal_code": MARK,
    "to_state": MARK,
    "telephone": MARK,
    "email": EMAIL,
    "reference": MARK,
    "note": MARK,
    "to_post_number": MARK,
}


@pytest.fixture
def deleted_answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Take Redis away, and return the holds whose answers would have been deleted there."""
    deleted: list[str] = []

    def forget_answers(hold_ids: list[str]) -> bool:
        deleted.extend(hold_ids)
        return True

    monkeypatch.setattr("offload.forget", forget_answers, raising=False)
    return deleted


def found() -> set[str]:
    """Return the tables that have the mark anywhere."""
    return {
        str(model._meta.model_name)
        for model in apps.get_models()
        for row in model._default_manager.values_list()
        if MARK.lower() in repr([_plain(value) for value in row]).lower()
    }


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


def a_receiver(account: Account, **more: Any) -> Announcement:
    """Store a receiver wherever one may be stored, long enough ago that nobody waits."""
    item = {"description": MARK, "properties": {"engraving": MARK}}
    parcel = LabelledParcelFactory.create(
        account=account,
        label=f"%PDF {MARK}".encode(),
        from_address={"name": MARK, "email": EMAIL},
        parcel_items=[item],
        carrier_error=f"no such street: {MARK}",
        order_number="order 7",
        **(RECEIVER | more),
    )
    row = AnnouncementFactory.create(
        parcel=parcel, state=State.ANNOUNCED, error=f"no such street: {MARK}"
    )
    attempt = Attempt.objects.create(
        announcement=row, fence=1, outcome="refused", detail=f"ADDRESS {MARK}"
    )
    Document.objects.create(parcel=parcel, format="zpl", content=MARK.encode(), attempt=attempt)
    hold_of(row, seconds=-60)
    endpoint = WebhookEndpoint.objects.create(account=account, url="https://a.b/")
    event = WebhookEvent.objects.create(account=account, parcel=parcel, status=1000)
    WebhookDelivery.objects.create(event=event, endpoint=endpoint)
    assert isinstance(row, Announcement)
    return row


def hold_of(row: Announcement, *, seconds: float) -> Hold:
    """Return a hold whose deadline is in so many seconds, of a batch with an invalid parcel."""
    hold = Hold.objects.create(
        id=f"{Hold.objects.count():032x}",
        account=row.account,
        question=question(row.parcel_id),
        deadline_at=timezone.now() + timedelta(seconds=seconds),
    )
    hold.announcements.add(row)
    return hold


def key_of(row: Announcement) -> IdempotencyKey:
    """Return the key of a batch with an invalid parcel."""
    return IdempotencyKey.objects.create(
        account=row.account,
        key="batch",
        fingerprint="f",
        question={"question": question(row.parcel_id), "synchronous": True},
        expires_at=timezone.now() + timedelta(days=1),
    )


def question(*parcels: int) -> dict[str, Any]:
    failed = {"parcel": {"name": "", "email": EMAIL.lower()}, "errors": {"name": [f"{MARK}?"]}}
    return {"parcels": list(parcels), "base": "", "path": "/parcels", "failed": [failed]}


def test_everything_of_a_receiver_is_removed_and_the_numbers_stay(
    account: Account, deleted_answers: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    row = a_receiver(account)
    parcel_id, tracking = row.parcel_id, row.parcel.tracking_number
    key_of(row)
    everywhere = {"parcel", "announcement", "attempt", "document", "hold", "idempotencykey"}
    assert found() == everywhere
    hold_id = Hold.objects.get().pk
    call_command("forget", str(account.pk), "--email", EMAIL.upper())
    assert found() == set()
    assert deleted_answers == [hold_id]
    parcel = Parcel.objects.get(pk=parcel_id)
    assert (parcel.tracking_number, parcel.order_number) == (tracking, "order 7")
    assert (parcel.status, parcel.country) == (Status.READY_TO_SEND, "NL")
    assert parcel.date_forgotten is not None
    said = capsys.readouterr().out
    assert f"removed: {parcel_id}" in said
    assert MARK.lower() not in said.lower()
    # The key still stands for what it made, and its batch for one that failed.
    kept = IdempotencyKey.objects.get().question["question"]  # type: ignore[index] # fulfilled
    assert kept["parcels"] == [parcel_id]
    assert len(kept["failed"]) == 1


def test_each_text_of_a_parcel_is_removed_or_known_to_stay() -> None:
    """A field that is added is decided about."""
    kinds = (models.CharField, models.TextField, models.JSONField)
    texts = {field.name for field in Parcel._meta.fields if isinstance(field, kinds)}
    assert texts - forget.BLANK.keys() == KEPT
    assert not KEPT & forget.BLANK.keys()


def test_by_its_id_one_parcel_is_forgotten(account: Account) -> None:
    mine, other = a_receiver(account), ParcelFactory.create(account=account)
    call_command("forget", str(account.pk), "--parcel", str(mine.parcel_id))
    assert "parcel" not in found()
    other.refresh_from_db()
    assert (other.name, other.date_forgotten) == ("Test Receiver", None)


def test_who_sends_back_is_found_by_the_address_it_comes_from(account: Account) -> None:
    row = a_receiver(account, email="warehouse@shop.example", is_return=True)
    call_command("forget", str(account.pk), "--email", EMAIL)
    row.parcel.refresh_from_db()
    assert row.parcel.from_address == {}


def test_who_sends_a_parcel_out_is_no_receiver(account: Account) -> None:
    """Each parcel has its sender's address, which is the shop's own."""
    row = a_receiver(account, email="bea@mail.example")
    call_command("forget", str(account.pk), "--email", EMAIL)
    row.parcel.refresh_from_db()
    assert row.parcel.email == "bea@mail.example"
    assert row.parcel.documents.exists()


def test_a_receiver_of_another_account_is_not_touched(account: Account, other_shop: Shop) -> None:
    row = a_receiver(other_shop.account)
    key_of(row)
    before = found()
    for how in (["--email", EMAIL], ["--parcel", str(row.parcel_id)]):
        call_command("forget", str(account.pk), *how)
    assert found() == before


@pytest.mark.parametrize(
    "busy",
    [
        {"state": State.PENDING},
        {"state": State.UNKNOWN},
        {"state": State.NEEDS_REVIEW},
        {"parcel__date_cancel_requested": timezone.now()},
        {"hold": -20.0},  # its late answer is in Redis for half a minute
    ],
    ids=["pending", "unknown", "review", "cancelling", "waiting"],
)
def test_while_something_is_under_way_it_is_refused(account: Account, busy: Any) -> None:
    row = a_receiver(account)
    state = row.state
    for name, value in busy.items():
        if name == "hold":
            hold_of(row, seconds=value)
        elif name == "state":
            Announcement.objects.update(state=value)
        else:
            Parcel.objects.update(**{name.removeprefix("parcel__"): value})
    before = found()
    with pytest.raises(CommandError, match=f"{row.parcel_id}.*run it again"):
        call_command("forget", str(account.pk), "--parcel", str(row.parcel_id))
    assert found() >= before - {"hold"}  # those that are over go all the same
    Announcement.objects.update(state=state)
    Parcel.objects.update(date_cancel_requested=None)
    Hold.objects.all().delete()
    call_command("forget", str(account.pk), "--parcel", str(row.parcel_id))
    assert found() == set()


def test_who_waits_for_another_of_the_same_batch_is_told_first(account: Account) -> None:
    """Its answer has both parcels in it, and it waits for one of them."""
    row, other = a_receiver(account), AnnouncementFactory.create(parcel__account=account)
    Hold.objects.all().delete()
    hold = hold_of(other, seconds=30)
    Hold.objects.update(question=question(other.parcel_id, row.parcel_id))
    with pytest.raises(CommandError, match=f"left: {row.parcel_id}, and 1 answers.*may still"):
        call_command("forget", str(account.pk), "--parcel", str(row.parcel_id))
    aged(hold, deadline_at=timedelta(minutes=1))
    call_command("forget", str(account.pk), "--parcel", str(row.parcel_id))
    assert found() == set()


def test_an_account_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandError, match="no account 999"):
        call_command("forget", "999", "--email", EMAIL)


def test_no_statement_has_a_parameter_for_each_parcel(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL takes 65,535 in a statement."""
    monkeypatch.setattr(forget, "PARCELS_AT_ONCE", 4)
    parcels = [LabelledParcelFactory.create(account=account, email=EMAIL) for _ in range(20)]
    most = 0

    def count(execute: Any, sql: str, params: Any, *given: Any) -> Any:
        nonlocal most
        if "IN (" in sql and "UPDATE" not in sql:
            most = max(most, len(params))
        return execute(sql, params, *given)

    with connection.execute_wrapper(count):
        call_command("forget", str(account.pk), "--email", EMAIL)
    assert most < 20
    assert Parcel.objects.exclude(date_forgotten=None).count() == len(parcels)


def test_a_draft_is_deleted(account: Account, shop: Shop) -> None:
    draft = shop.post("parcels", {"parcel": body(name=MARK, email=EMAIL)}).json()["parcel"]["id"]
    call_command("forget", str(account.pk), "--email", EMAIL)
    assert not Parcel.objects.exists()
    assert shop.get(f"parcels/{draft}").status_code == 404


def test_a_forgotten_parcel_is_shown_and_its_reference_stays_taken(
    account: Account, shop: Shop
) -> None:
    made = {"parcel": body(**RECEIVER, shipment=8, external_reference="r-1")}
    parcel = shop.post("parcels", made).json()["parcel"]["id"]
    Parcel.objects.update(status=Status.READY_TO_SEND, tracking_number="3S1")
    call_command("forget", str(account.pk), "--email", EMAIL)
    shown = shop.get(f"parcels/{parcel}").json()["parcel"]
    assert (shown["name"], shown["email"], shown["tracking_number"]) == ("", "", "3S1")
    assert shop.get(f"parcels/{parcel}/documents/label").status_code == 404
    assert shop.post("parcels", made).status_code == 409


def test_an_order_of_which_a_draft_is_deleted_is_not_made_again(
    account: Account, shop: Shop
) -> None:
    """Its other collo was bought: the first one's reference stays taken."""
    made = {"parcels": [body(email=EMAIL, shipment=8, external_reference="r-1", quantity=2)]}
    draft, bought = shop.post("parcels", made).json()["parcels"]
    Parcel.objects.filter(pk=bought["id"]).update(status=Status.READY_TO_SEND)
    call_command("forget", str(account.pk), "--email", EMAIL)
    assert list(Parcel.objects.values_list("pk", flat=True)) == [bought["id"]] != [draft["id"]]
    assert shop.post("parcels", made).status_code == 409


def test_redis_that_is_away_is_told(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    a_receiver(account)
    monkeypatch.setattr("offload.forget", lambda _: False)
    with pytest.raises(CommandError, match="Redis"):
        call_command("forget", str(account.pk), "--email", EMAIL)
    assert found() == set()


def test_answers_are_deleted_before_a_parcel_can_fail(
    account: Account, deleted_answers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second try finds no hold by a parcel that is forgotten."""
    monkeypatch.setattr(forget, "PARCELS_AT_ONCE", 1)
    monkeypatch.setattr(forget, "_remove", lambda _: 1 / 0)
    a_receiver(account)
    hold_id = Hold.objects.get().pk
    with pytest.raises(ZeroDivisionError):
        call_command("forget", str(account.pk), "--email", EMAIL)
    assert (deleted_answers, Hold.objects.count()) == ([hold_id], 0)


def aged(row: models.Model, **ages: timedelta) -> None:
    values = {name: timezone.now() - age for name, age in ages.items()}
    type(row)._default_manager.filter(pk=row.pk).update(**values)


def test_receivers_are_forgotten_by_age_in_portions_oldest_first(
    account: Account, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PARCEL_KEEP = 3600
    monkeypatch.setattr(forget, "PARCELS_AT_ONCE", 2)
    rows = [a_receiver(account) for _ in range(5)]
    for row, minutes in zip(rows, (61, 63, 62, 64, 59), strict=True):
        age = timedelta(minutes=minutes)
        aged(row.parcel, date_created=age, date_announced=age)
    Announcement.objects.filter(pk=rows[3].pk).update(state=State.NEEDS_REVIEW)
    steps = []
    for _ in range(3):
        forget_old_parcels()
        left = Parcel.objects.filter(date_forgotten=None)
        steps.append({rows.index(row) for row in rows if left.filter(pk=row.parcel_id)})
    assert steps == [{0, 3, 4}, {3, 4}, {3, 4}]


@pytest.mark.parametrize(("minutes", "forgotten"), [(1, False), (61, True), (None, True)])
def test_a_receiver_is_kept_from_the_announcement_on(
    account: Account, settings: Any, minutes: int | None, forgotten: bool
) -> None:
    """A draft of a year ago that was announced a minute ago still has a label to be printed."""
    settings.PARCEL_KEEP = 3600
    parcel = a_receiver(account).parcel
    aged(parcel, date_created=timedelta(minutes=99))
    announced = minutes and timezone.now() - timedelta(minutes=minutes)
    Parcel.objects.update(date_announced=announced)
    assert forget_old_parcels() == forgotten
    assert Document.objects.exists() != forgotten


def test_documents_are_deleted_by_age_in_portions_oldest_first(
    account: Account, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DOCUMENT_KEEP = 3600
    monkeypatch.setattr(forget, "DOCUMENTS_AT_ONCE", 2)
    row = a_receiver(account)
    reviewed = AnnouncementFactory.create(state=State.NEEDS_REVIEW)
    evidence = Document.objects.create(parcel=reviewed.parcel, format="pdf", content=b"%PDF")
    pdf, zpl, other = Document.objects.filter(parcel=row.parcel_id).order_by("pk")
    for document, minutes in ((evidence, 99), (pdf, 61), (zpl, 63), (other, 62)):
        aged(document, date_created=timedelta(minutes=minutes))
    fresh = Document.objects.create(parcel=row.parcel, type="cn23", format="pdf", content=b"%PDF")
    assert [forget_old_documents(), set(Document.objects.all())] == [2, {evidence, pdf, fresh}]
    assert [forget_old_documents(), set(Document.objects.all())] == [1, {evidence, fresh}]
    assert forget_old_documents() == 0
