"""The operator's pages: for staff, over all accounts, and telling what happened."""

import io
import re
from datetime import timedelta
from unittest.mock import Mock

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from parcels.models import (
    Attempt,
    Document,
    Parcel,
    State,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.services import webhooks
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory, ParcelFactory
from parcels.tests.hold_plans import explaining
from parcels.views.operator import PER_PAGE

pytestmark = pytest.mark.django_db

PAGES = ["/operator/parcels", "/operator/parcels/{}", "/operator/parcels/{}/label.png",
         "/operator/review", "/operator/live"]  # fmt: skip


def pdf():
    target = io.BytesIO()
    canvas = Canvas(target, pagesize=(298, 420))
    canvas.drawString(20, 200, "label")
    canvas.save()
    return target.getvalue()


@pytest.fixture
def staff(client):
    client.force_login(User.objects.create_superuser("operator"))
    return client


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("somebody", ["nobody", "customer"])
def test_only_staff_gets_in(client, page, somebody):
    parcel = LabelledParcelFactory.create(label=pdf())
    if somebody == "customer":
        client.force_login(User.objects.create_user("customer"))
    answer = client.get(page.format(parcel.pk))
    assert answer.status_code == 302
    assert answer["Location"].startswith("/admin/login/")


@pytest.mark.parametrize("page", PAGES)
def test_no_browser_keeps_a_page(staff, page):
    """They have names and addresses, and the next person may press "back"."""
    parcel = LabelledParcelFactory.create(label=pdf())
    assert staff.get(page.format(parcel.pk))["Cache-Control"] == "no-store"


def test_the_list_has_the_parcels_of_all_accounts(staff):
    parcels = [ParcelFactory.create(), ParcelFactory.create()]
    page = staff.get("/operator/parcels").content.decode()
    assert all(f"/operator/parcels/{parcel.pk}" in page for parcel in parcels)
    assert all(parcel.account.name in page for parcel in parcels)


def listed(staff, query):
    return {parcel.pk for parcel in staff.get("/operator/parcels", query).context["page"]}


def test_each_filter_leaves_what_fits(staff):
    ready = LabelledParcelFactory.create(order_number="A-1", carrier="colibri")
    waiting = AnnouncementFactory.create(parcel=ParcelFactory.create()).parcel
    assert listed(staff, {"status": "1000"}) == {ready.pk}
    assert listed(staff, {"carrier": "postnl"}) == {waiting.pk}
    assert listed(staff, {"carrier": "\0"}) == set()  # which PostgreSQL refuses
    assert listed(staff, {"account": waiting.account_id}) == {waiting.pk}
    assert listed(staff, {"q": "A-1"}) == {ready.pk}
    assert listed(staff, {"q": ready.tracking_number}) == {ready.pk}
    assert listed(staff, {"q": waiting.announcements.get().reference}) == {waiting.pk}
    assert listed(staff, {"q": str(ready.pk)}) == {ready.pk}


@pytest.mark.parametrize("page", ["/operator/parcels", "/admin/parcels/parcel/"])
def test_a_list_counts_no_more_than_it_shows(staff, monkeypatch, page):
    """Millions take seconds to be counted, and nobody turns so many pages."""
    monkeypatch.setattr("parcels.pagination.NEWEST", 3)
    parcels = [ParcelFactory.create() for _ in range(5)]
    with CaptureQueriesContext(connection) as executed:
        answer = staff.get(page)
    rows = answer.context["cl"].result_list if "cl" in answer.context else answer.context["page"]
    assert [row.pk for row in rows][:3] == [parcel.pk for parcel in parcels[:1:-1]]
    counts = [each["sql"] for each in executed if "COUNT(" in each["sql"]]
    assert [sql for sql in counts if "parcels_parcel" in sql and "LIMIT 3" not in sql] == []
    assert "newest 3" in answer.content.decode() or "admin" in page


def test_of_many_that_are_called_the_same_the_filter_finds_each(staff):
    parcels = [ParcelFactory.create(order_number="1") for _ in range(PER_PAGE + 1)]
    for parcel in parcels:
        assert listed(staff, {"q": "1", "account": parcel.account_id}) == {parcel.pk}


@pytest.mark.parametrize(
    ("name", "by", "value"),
    [
        ("order_number", "q", "A-{}"),
        ("external_reference", "q", "A-{}"),
        ("status", "status", "{}"),
    ],
)
def test_what_few_parcels_have_is_found_by_an_index(staff, name, by, value):
    """Each begins with the account; by the value alone all parcels would be read."""
    accounts = [ParcelFactory.create().account for _ in range(3)]
    Parcel.objects.bulk_create(
        [Parcel(account=accounts[n % 3], weight=1, **{name: value.format(n)}) for n in range(2000)],
        500,
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE" if connection.vendor == "postgresql" else "SELECT 1")
    plans: list[tuple[str, str]] = []
    with connection.execute_wrapper(explaining(plans, f'"{name}" =')):
        assert len(listed(staff, {by: value.format(77)})) == 1
    assert {bool(re.search("account_id ?=", plan)) for _, plan in plans} == {True}


@pytest.mark.parametrize(
    "query", [{"status": "x"}, {"account": "9" * 40}, {"q": "9" * 40}, {"q": "\0"}, {"page": "x"}]
)
def test_nonsense_is_no_error(staff, query):
    ParcelFactory.create()
    assert staff.get("/operator/parcels", query).status_code == 200


def parcel_with_a_life():
    parcel = LabelledParcelFactory.create(label=pdf())
    announcement = AnnouncementFactory.create(parcel=parcel, state=State.ANNOUNCED)
    Attempt.objects.create(announcement=announcement, fence=1, outcome="unknown", detail="reset")
    Attempt.objects.create(announcement=announcement, fence=2, outcome="announced", duration=1.5)
    endpoint = WebhookEndpoint.objects.create(account=parcel.account, url="https://shop.test/hook")
    event = WebhookEvent.objects.create(account=parcel.account, parcel=parcel, status=1000)
    delivery = WebhookDelivery.objects.create(event=event, endpoint=endpoint, state="failed")
    WebhookAttempt.objects.create(delivery=delivery, duration=0.2, status=500)
    return parcel, delivery


def test_the_timeline_tells_all_in_order(staff):
    parcel, _ = parcel_with_a_life()
    page = staff.get(f"/operator/parcels/{parcel.pk}").content.decode()
    told = ["Created", "Announcement accepted", "unknown", "announced", "500 after 0.20 s"]
    places = [page.index(words) for words in told]
    assert places == sorted(places)
    assert f'src="/operator/parcels/{parcel.pk}/label.png"' in page


@pytest.mark.parametrize("page", ["/operator/parcels/77", "/operator/parcels/77/label.png"])
def test_a_missing_parcel_is_a_page_with_a_sentence(staff, page):
    answer = staff.get(page)
    assert (answer.status_code, answer["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "There is no parcel 77." in answer.content.decode()
    assert 'href="/operator/parcels"' in answer.content.decode()


def test_a_missing_page_of_the_operators_is_a_page_and_of_the_api_is_json(staff):
    for path in ("/operator/nothing", "/admin/nothing"):
        assert "There is no such page." in staff.get(f"{path}/").content.decode()
    assert staff.get("/api/v2/nothing").json()["error"]["code"] == 404


def test_a_stranger_s_missing_page_shows_nothing_of_parcels(client):
    answer = client.get("/operator/nothing")
    assert answer.status_code == 404
    assert "/operator/parcels" not in answer.content.decode()


def test_the_admin_leads_back_to_the_operators_pages(staff):
    page = staff.get("/admin/").content.decode()
    assert '<a href="/operator/">View site</a>' in page
    assert "Django administration" not in page


def test_the_address_in_the_readme_leads_to_the_list(staff):
    assert staff.get("/operator/")["Location"] == "/operator/parcels"


def test_an_end_stands_after_the_try_that_brought_it(staff):
    parcel = ParcelFactory.create()
    now = timezone.now().replace(microsecond=0)
    announcement = AnnouncementFactory.create(parcel=parcel, state=State.FAILED, date_ended=now)
    tried = Attempt.objects.create(announcement=announcement, fence=1, outcome="refused")
    Attempt.objects.filter(pk=tried.pk).update(date_created=now + timedelta(milliseconds=5))
    page = staff.get(f"/operator/parcels/{parcel.pk}").content.decode()
    assert page.index("Attempt 1") < page.index("Ended: failed")


def test_a_label_that_is_voided_later_did_not_end_so_when_it_was_bought(staff):
    bought = timezone.now() - timedelta(days=2)
    row = AnnouncementFactory.create(state=State.VOIDED, date_ended=bought)
    Attempt.objects.create(announcement=row, fence=2, kind="void", outcome="voided")
    page = staff.get(f"/operator/parcels/{row.parcel_id}").content.decode()
    assert "Attempt 2 (void): voided" in page
    assert "Ended:" not in page


def test_what_goes_as_it_should_has_no_colour_of_trouble(staff):
    parcel, delivery = parcel_with_a_life()
    WebhookDelivery.objects.filter(pk=delivery.pk).update(state="pending")
    page = staff.get(f"/operator/parcels/{parcel.pk}").content.decode()
    assert page.count('<li class="open">') == 1  # the unknown try, no webhook that is on its way
    sent = staff.post(f"/operator/parcels/{parcel.pk}/webhooks/{delivery.pk}/again", follow=True)
    assert '<p class="message" role="status">' in sent.content.decode()


def test_a_receiver_is_shown_by_its_host_alone(staff):
    """Shops put secrets into path and query; the whole address needs a permission of its own."""
    parcel, _ = parcel_with_a_life()
    WebhookEndpoint.objects.update(url="https://shop.test:8443/hook/k3y?token=s3cret")
    page = staff.get(f"/operator/parcels/{parcel.pk}").content.decode()
    page += staff.get("/admin/parcels/webhookendpoint/").content.decode()
    assert page.count("shop.test") == 2
    assert "k3y" not in page
    assert "s3cret" not in page
    WebhookEndpoint.objects.update(url="https://[")  # typed in at the admin
    assert staff.get(f"/operator/parcels/{parcel.pk}").status_code == 200


@pytest.mark.parametrize("of", ["parcel", "announcement"])
@pytest.mark.parametrize("query", ["q={}", "q=LISTED", "carrier=postnl", "q=word&carrier=postnl"])
def test_the_admin_reads_no_whole_table_for_its_list(staff, query, of):
    parcel = LabelledParcelFactory.create(carrier="postnl", tracking_number="LISTED")
    row = AnnouncementFactory.create(parcel=parcel, carrier="postnl", reference="LISTED")
    AnnouncementFactory.create(parcel__carrier="lantern", carrier="lantern")
    kept = parcel if of == "parcel" else row
    executed = []

    def note(execute, sql, *given):
        executed.append(sql)
        return execute(sql, *given)

    with connection.execute_wrapper(note):
        answer = staff.get(f"/admin/parcels/{of}/?{query.format(parcel.pk)}")
    assert [row.pk for row in answer.context["cl"].result_list] == [kept.pk] * ("word" not in query)
    slow = ("DISTINCT", "UPPER", "LIKE", "CAST", "::varchar", " OR ")
    assert not [sql for sql in executed if any(each in sql for each in slow)]


@pytest.mark.parametrize("of", ["parcel", "announcement", "trackingevent"])
def test_no_number_is_too_long_for_the_admin(staff, of):
    answer = staff.get(f"/admin/parcels/{of}/?q={'9' * 20}")
    assert (answer.status_code, list(answer.context["cl"].result_list)) == (200, [])


def test_the_admin_finds_events_by_their_parcel_s_number(staff):
    parcel = LabelledParcelFactory.create(tracking_number="LISTED")
    event = parcel.tracking_events.create(
        carrier="postnl", tracking_number="LISTED", status=22, at=timezone.now(), seq=1
    )
    with CaptureQueriesContext(connection) as executed:
        answer = staff.get("/admin/parcels/trackingevent/?q=LISTED")
    assert list(answer.context["cl"].result_list) == [event]
    slow = '"parcels_trackingevent"."tracking_number" ='
    assert not [each["sql"] for each in executed if slow in each["sql"]]


@pytest.mark.parametrize("page", ["", "{}/change/"])
def test_the_admin_reads_no_document_s_bytes(staff, page):
    LabelledParcelFactory.create(label=pdf())
    pk = Document.objects.values_list("pk", flat=True)[0]
    with CaptureQueriesContext(connection) as executed:
        assert staff.get(f"/admin/parcels/document/{page.format(pk)}").status_code == 200
    assert not [each["sql"] for each in executed if '"content"' in each["sql"]]


@pytest.mark.parametrize("of", ["account", "webhookendpoint"])
def test_what_has_rows_without_end_is_not_deleted_in_the_admin(staff, of):
    _, delivery = parcel_with_a_life()
    rows = {"account": delivery.endpoint.account, "webhookendpoint": delivery.endpoint}
    page = f"/admin/parcels/{of}/{rows[of].pk}"
    assert staff.get(f"{page}/change/").status_code == 200
    assert staff.get(f"{page}/delete/").status_code == 403


def test_what_a_client_wrote_is_text_and_no_markup(staff):
    parcel = ParcelFactory.create(name="<script>alert(1)</script>", carrier_error="<b>no</b>")
    page = staff.get(f"/operator/parcels/{parcel.pk}").content.decode()
    assert "<script>alert" not in page
    assert "<b>no</b>" not in page


def test_the_label_is_a_picture(staff):
    parcel = LabelledParcelFactory.create(label=pdf())
    answer = staff.get(f"/operator/parcels/{parcel.pk}/label.png")
    with Image.open(io.BytesIO(answer.content)) as picture:
        assert picture.width > 500


def test_a_voided_label_is_not_shown(staff):
    parcel = LabelledParcelFactory.create(label=pdf(), status=2000)
    assert staff.get(f"/operator/parcels/{parcel.pk}/label.png").status_code == 404
    assert "label.png" not in staff.get(f"/operator/parcels/{parcel.pk}").content.decode()


def test_a_webhook_is_sent_again_by_post_alone(staff, monkeypatch):
    monkeypatch.setattr("parcels.services.webhooks.send", lambda *message: True)
    parcel, delivery = parcel_with_a_life()
    path = f"/operator/parcels/{parcel.pk}/webhooks/{delivery.pk}/again"
    assert staff.get(path).status_code == 405
    assert staff.post(path).status_code == 302
    delivery.refresh_from_db()
    assert delivery.state == "pending"


@pytest.mark.parametrize("by", ["page", "admin"])
def test_nothing_is_sent_again_to_a_webhook_that_is_off(staff, by):
    parcel, delivery = parcel_with_a_life()
    WebhookDelivery.objects.update(state="delivered")
    WebhookEndpoint.objects.update(is_active=False)
    stored = list(WebhookDelivery.objects.values())
    if by == "page":
        path = f"/operator/parcels/{parcel.pk}/webhooks/{delivery.pk}/again"
        page = staff.post(path, follow=True)
    else:
        chosen = {"action": "send_again", "_selected_action": delivery.pk}
        page = staff.post("/admin/parcels/webhookdelivery/", chosen, follow=True)
    text = page.content.decode()
    assert "switched off" in text
    assert "The webhook will be sent again" not in text
    assert list(WebhookDelivery.objects.values()) == stored
    assert not LogEntry.objects.exists()


def test_all_that_are_chosen_are_no_more_than_the_list_has(staff, monkeypatch):
    monkeypatch.setattr("parcels.services.webhooks.send", lambda *message: True)
    monkeypatch.setattr("parcels.pagination.NEWEST", 2)
    deliveries = [parcel_with_a_life()[1] for _ in range(3)]
    chosen = {"action": "send_again", "_selected_action": deliveries[0].pk, "select_across": 1}
    assert staff.post("/admin/parcels/webhookdelivery/", chosen).status_code == 302
    again = WebhookDelivery.objects.filter(state="pending").values_list("pk", flat=True)
    assert sorted(again) == [delivery.pk for delivery in deliveries[1:]]


def test_what_is_deleted_meanwhile_does_not_end_the_others_sending(staff, monkeypatch):
    first, gone, last = (parcel_with_a_life()[1] for _ in range(3))
    send_again = webhooks.send_again

    def send_late(delivery):
        if delivery == gone:
            delivery.event.delete()
        return send_again(delivery)

    monkeypatch.setattr(webhooks, "send_again", send_late)
    chosen = {"action": "send_again", "_selected_action": [first.pk, gone.pk, last.pk]}
    assert staff.post("/admin/parcels/webhookdelivery/", chosen).status_code == 302
    assert WebhookDelivery.objects.filter(state="pending").count() == 2


@pytest.mark.parametrize(
    ("query", "newest", "said"),
    [
        ("?state__exact=failed", 3, ["3 will be sent again."]),
        # Those beyond the list are not called switched off.
        ("", 2, ["2 will be sent again."]),
    ],
)
def test_what_is_left_is_counted_among_what_was_tried(staff, monkeypatch, query, newest, said):
    monkeypatch.setattr("parcels.pagination.NEWEST", newest)
    deliveries = [parcel_with_a_life()[1] for _ in range(3)]
    chosen = {"action": "send_again", "_selected_action": deliveries[0].pk, "select_across": 1}
    page = staff.post(f"/admin/parcels/webhookdelivery/{query}", chosen, follow=True)
    assert [str(each) for each in page.context["messages"]] == said


def test_a_webhook_of_another_parcel_is_not_found(staff):
    _, delivery = parcel_with_a_life()
    other = ParcelFactory.create()
    path = f"/operator/parcels/{other.pk}/webhooks/{delivery.pk}/again"
    assert staff.post(path).status_code == 404
    delivery.refresh_from_db()
    assert delivery.state == "failed"


@pytest.mark.parametrize(
    ("carrier", "advice"), [("lantern", "buys a second label"), ("tortoise", "settling time")]
)
def test_review_shows_evidence_and_what_to_do(staff, carrier, advice):
    announcement = AnnouncementFactory.create(
        parcel=ParcelFactory.create(carrier=carrier),
        carrier=carrier,
        state=State.NEEDS_REVIEW,
        sent_at=timezone.now(),
    )
    Attempt.objects.create(
        announcement=announcement, fence=1, outcome="unknown", detail="timed out"
    )
    page = staff.get("/operator/review").content.decode()
    assert announcement.reference in page
    assert "timed out" in page
    assert advice in page
    assert f"/admin/parcels/announcement/?q={announcement.reference}" in page


def test_review_says_why_a_person_must_decide(staff):
    """Not each one was sent, and its evidence may be days old."""
    at = timezone.now() - timedelta(days=2)
    never_sent = AnnouncementFactory.create(
        parcel=ParcelFactory.create(), state=State.NEEDS_REVIEW, error="Its maximum age has passed."
    )
    attempt = Attempt.objects.create(announcement=never_sent, fence=1, outcome="not_sent")
    Attempt.objects.filter(pk=attempt.pk).update(date_created=at)
    page = staff.get("/operator/review").content.decode()
    assert "Its maximum age has passed." in page
    assert "The carrier got the call" not in page
    assert f"{at:%Y-%m-%d %H:%M:%S}" in page


def test_a_parcels_page_names_its_announcements_state_in_words(staff):
    parcel = ParcelFactory.create()
    AnnouncementFactory.create(parcel=parcel, state=State.NEEDS_REVIEW)
    page = staff.get(f"/operator/parcels/{parcel.pk}").content.decode()
    assert "needs_review" not in page


def test_a_failure_is_a_page_for_people(staff, monkeypatch):
    """Made without the database, which may be what is away."""
    monkeypatch.setattr("parcels.views.operator._filtered", Mock(side_effect=OperationalError))
    staff.raise_request_exception = False
    answer = staff.get("/operator/parcels")
    assert (answer.status_code, answer["Content-Type"][:9]) == (500, "text/html")
    assert "the log says" in answer.content.decode()
