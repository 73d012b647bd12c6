"""A person decides about an announcement under review, in the admin."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from carriers import transport
from carriers.outcomes import Unknown, Voided, VoidResult
from parcels.models import (
    Announcement,
    Attempt,
    Document,
    Parcel,
    SpareLabel,
    SpareState,
    State,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.review_admin import LARGEST_LABEL
from parcels.services import review, spares
from parcels.statuses import Status
from parcels.tests.factories import PDF, AnnouncementFactory, LabelledParcelFactory

pytestmark = pytest.mark.django_db
LIST = "/admin/parcels/announcement/"


@pytest.fixture
def doubt() -> Announcement:
    announcement = AnnouncementFactory.create(
        state=State.NEEDS_REVIEW, fence=3, carrier="lantern", parcel__carrier="lantern"
    )
    WebhookEndpoint.objects.create(account=announcement.account, url="https://shop.example/hook")
    return announcement


@pytest.fixture
def spare(doubt: Announcement) -> SpareLabel:
    attempt = Attempt.objects.create(
        announcement=doubt, fence=2, outcome="announced", recorded=False,
        carrier_id="c-7", tracking_number="3S7",
    )  # fmt: skip
    Document.objects.create(parcel=doubt.parcel, format="pdf", content=PDF, attempt=attempt)
    return SpareLabel.objects.create(
        announcement=doubt, attempt=attempt, carrier_id="c-7", tracking_number="3S7",
        source="answer",
    )  # fmt: skip


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("operator", password="x" * 20))
    return client


def act(operator: Client, action: str, announcement: Announcement, **more: Any) -> Any:
    data = {"action": action, "_selected_action": announcement.pk} | more
    return operator.post(LIST, data, follow=True)


def test_the_evidence_is_shown(operator: Client, doubt: Announcement, spare: SpareLabel) -> None:
    listed = operator.get(f"{LIST}?state=needs_review").content.decode()
    assert doubt.reference in listed
    page = operator.get(f"{LIST}{doubt.pk}/change/").content.decode()
    assert f"label (pdf, {len(PDF)} bytes) of 3S7" in page
    assert "c-7" in page


def test_a_spare_label_is_adopted(operator: Client, doubt: Announcement, spare: SpareLabel) -> None:
    assert b"<title>Adopt a label" in act(operator, "adopt_label", doubt).content
    act(operator, "adopt_label", doubt, adopt="Adopt", spare=spare.pk)
    doubt.refresh_from_db()
    parcel = doubt.parcel
    assert (doubt.state, doubt.carrier_id, doubt.fence) == (State.ANNOUNCED, "c-7", 4)
    assert (parcel.status, parcel.tracking_number) == (Status.READY_TO_SEND, "3S7")
    assert bytes(Document.objects.get(parcel=parcel, attempt=None).content) == PDF
    assert doubt.attempts.get(kind="review").detail == "by operator"
    assert WebhookEvent.objects.filter(parcel=parcel, status=1000).count() == 1
    spares.settle_spare(spare.pk)
    spare.refresh_from_db()
    assert spare.state == SpareState.KEPT


def test_a_spare_label_that_was_settled_is_not_offered(
    operator: Client, doubt: Announcement, spare: SpareLabel
) -> None:
    assert review.settle_by_hand(spare, by="operator")
    act(operator, "adopt_label", doubt, adopt="Adopt", spare=spare.pk)
    doubt.refresh_from_db()
    assert doubt.state == State.NEEDS_REVIEW


def test_a_spare_label_that_is_settled_meanwhile_is_not_adopted(
    operator: Client, doubt: Announcement, spare: SpareLabel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be void, and would be printed."""
    read = review.papers_of

    def slowly(*given: Any) -> list[Document]:
        assert review.settle_by_hand(spare, by="another")
        return read(*given)

    monkeypatch.setattr(review, "papers_of", slowly)
    page = act(operator, "adopt_label", doubt, adopt="Adopt", spare=spare.pk).content.decode()
    doubt.refresh_from_db()
    assert doubt.state == State.NEEDS_REVIEW
    assert "was settled by hand meanwhile" in page


def test_a_label_is_typed_in(operator: Client, doubt: Announcement) -> None:
    Parcel.objects.update(status=Status.ANNOUNCEMENT_FAILED)  # overdue, and shown as failed
    label = SimpleUploadedFile("label.pdf", PDF)
    typed = {"tracking_number": "3S9", "carrier_id": "c-9", "label": label}
    act(operator, "adopt_label", doubt, adopt="Adopt", **typed)
    doubt.parcel.refresh_from_db()
    assert doubt.parcel.status == Status.READY_TO_SEND
    assert doubt.parcel.tracking_number == "3S9"
    assert bytes(Document.objects.get(parcel=doubt.parcel).content) == PDF


def test_a_label_over_the_form_s_limit_is_refused_by_the_form(
    operator: Client, doubt: Announcement
) -> None:
    """And not by the limit of all bodies, in JSON."""
    label = SimpleUploadedFile("label.pdf", PDF + bytes(LARGEST_LABEL))
    typed = {"tracking_number": "3S9", "carrier_id": "c-9", "label": label}
    page = act(operator, "adopt_label", doubt, adopt="Adopt", **typed)
    assert (page.status_code, "at most 2 MB" in page.content.decode()) == (200, True)


def test_a_carrier_that_voids_by_id_wants_it(operator: Client, doubt: Announcement) -> None:
    Announcement.objects.update(carrier="postnl")
    page = act(operator, "adopt_label", doubt, adopt="Adopt", tracking_number="3S9")
    assert "by its own id" in page.content.decode()
    doubt.refresh_from_db()
    assert doubt.state == State.NEEDS_REVIEW
    typed = {"tracking_number": "3S9", "carrier_id": "c-9", "no_document": "on"}
    act(operator, "adopt_label", doubt, adopt="Adopt", **typed)
    doubt.refresh_from_db()
    assert (doubt.state, doubt.carrier_id) == (State.ANNOUNCED, "c-9")


@pytest.mark.parametrize(
    ("carrier", "typed", "why"),
    [
        ("postnl", {"tracking_number": "3S1", "carrier_id": "c-9"}, "has this tracking number"),
        ("postnl", {"tracking_number": "3S9", "carrier_id": "c-1"}, "has the label of this id"),
        ("lantern", {"tracking_number": "3S9", "carrier_id": "c-1"}, None),
    ],
)
def test_another_parcel_s_label_is_refused(
    operator: Client, doubt: Announcement, carrier: str, typed: Any, why: str | None
) -> None:
    """A cancellation of one would void the other's."""
    other = AnnouncementFactory.create(
        state=State.ANNOUNCED, carrier_id="c-1", parcel__tracking_number="3S1",
    )  # fmt: skip
    for rows in (Announcement, Parcel):
        rows.objects.update(carrier=carrier)
    typed = typed | {"no_document": "on"}
    page = act(operator, "adopt_label", doubt, adopt="Adopt", **typed).content.decode()
    doubt.refresh_from_db()
    assert doubt.state == (State.NEEDS_REVIEW if why else State.ANNOUNCED)
    assert why is None or f"Parcel {other.parcel_id} {why}" in page


@pytest.mark.parametrize("with_spare", [False, True])
def test_a_label_without_a_document_is_a_decision(
    operator: Client, doubt: Announcement, with_spare: bool
) -> None:
    """Else the parcel is ready to send, and its links stay 404 for good."""
    LabelledParcelFactory.create()  # its documents are no attempt's
    typed: dict[str, Any] = {"tracking_number": "3S9", "carrier_id": "c-9"}
    if with_spare:  # of the carrier's list, without papers
        spare = SpareLabel.objects.create(announcement=doubt, source="lookup", **typed)
        typed = {"spare": spare.pk}
    page = act(operator, "adopt_label", doubt, adopt="Adopt", **typed).content.decode()
    assert "tick that there is no document" in page
    doubt.refresh_from_db()
    assert doubt.state == State.NEEDS_REVIEW
    act(operator, "adopt_label", doubt, adopt="Adopt", no_document="on", **typed)
    doubt.refresh_from_db()
    assert doubt.state == State.ANNOUNCED


@pytest.mark.parametrize(
    "typed", [{}, {"tracking_number": "3S9", "label": SimpleUploadedFile("x.pdf", b"no pdf")}]
)
def test_too_little_is_refused(operator: Client, doubt: Announcement, typed: Any) -> None:
    act(operator, "adopt_label", doubt, adopt="Adopt", **typed)
    doubt.refresh_from_db()
    assert doubt.state == State.NEEDS_REVIEW


def test_a_spare_with_another_number_is_refused(
    operator: Client, doubt: Announcement, spare: SpareLabel
) -> None:
    """Its PDF would be kept, and the spare, whose number is not the parcel's, voided."""
    typed = {"spare": spare.pk, "tracking_number": "3S8"}
    page = act(operator, "adopt_label", doubt, adopt="Adopt", **typed).content.decode()
    doubt.refresh_from_db()
    assert doubt.state == State.NEEDS_REVIEW
    assert "The spare label has another tracking number: 3S7." in page
    act(operator, "adopt_label", doubt, adopt="Adopt", **typed | {"tracking_number": "3S7"})
    doubt.parcel.refresh_from_db()
    assert doubt.parcel.tracking_number == "3S7"


def test_giving_up_voids_the_spare(
    operator: Client, doubt: Announcement, spare: SpareLabel, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def perform(steps: Any, *_: Any, **__: Any) -> Voided:
        asked.append(steps)
        steps.close()
        return Voided()

    monkeypatch.setattr(transport, "perform", perform)
    act(operator, "void_and_give_up", doubt)
    doubt.refresh_from_db()
    assert doubt.state == State.FAILED
    assert Parcel.objects.get().status == Status.ANNOUNCEMENT_FAILED
    assert asked == []  # no operator waits for a carrier
    assert spares.due_spares() == [spare.pk]
    spares.settle_spare(spare.pk)
    assert doubt.attempts.get(kind="void").outcome == "voided"
    assert len(asked) == 1
    spare.refresh_from_db()
    assert spare.state == SpareState.GONE


@pytest.mark.parametrize("state", sorted(set(State.values) - {"needs_review"}))
def test_only_what_is_under_review_can_be_decided(
    operator: Client, doubt: Announcement, state: str
) -> None:
    Announcement.objects.update(state=state)
    act(operator, "void_and_give_up", doubt)
    act(operator, "adopt_label", doubt, adopt="Adopt", tracking_number="3S9")
    doubt.refresh_from_db()
    assert doubt.state == state
    with pytest.raises(review.NotUnderReview):
        review.adopt(doubt, review.Label("3S9"), by="operator")


def test_a_spare_is_settled_by_hand(operator: Client, spare: SpareLabel) -> None:
    """A carrier that never takes it back must not keep the alarm up for ever."""
    data = {"action": "settle_by_hand", "_selected_action": spare.pk}
    answer = operator.post("/admin/parcels/sparelabel/", data, follow=True)
    assert b"1 closed" in answer.content
    spare.refresh_from_db()
    assert (spare.state, spare.error) == (SpareState.GONE, "settled by operator")


@pytest.mark.parametrize("result", [Voided(), Unknown("timeout")])
def test_what_a_person_has_settled_during_a_void_stays_so(
    monkeypatch: pytest.MonkeyPatch, doubt: Announcement, spare: SpareLabel, result: VoidResult
) -> None:
    def void(*_: Any, **__: Any) -> VoidResult:
        assert review.settle_by_hand(spare, by="operator")
        return result

    review.give_up(doubt, by="operator")
    monkeypatch.setattr(transport, "perform", void)
    spares.settle_spare(spare.pk)
    spare.refresh_from_db()
    assert (spare.state, spare.error) == (SpareState.GONE, "settled by operator")
