"""Each admin page, action and operator's page asks for a permission, and each action is logged.

Pages and actions are found in `admin.site` and in the URL configuration: a new one fails here until
it asks for a permission that is named here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.db import models
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from parcels.admin import ReadOnly, SwitchedOff
from parcels.models import (
    Account,
    Announcement,
    ApiKey,
    Attempt,
    Brand,
    CarrierContract,
    Document,
    Hold,
    Integration,
    Parcel,
    SenderAddress,
    SpareLabel,
    State,
    TrackingEvent,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory
from shipping import live

pytestmark = pytest.mark.django_db

# What the admin has beside the models' pages: the user's own, or nothing without a model's.
OWN_PAGES = {
    *("index", "login", "logout", "password_change", "password_change_done", "jsi18n"),
    *("app_list", "autocomplete", "view_on_site", None),
}
VERBS = {"changelist": "view", "change": "view", "history": "view", "add": "add",
         "delete": "delete", "password_change": "change"}  # fmt: skip
ACTIONS = {
    ("account", "issue_key"): "parcels.issue_apikey",
    ("apikey", "revoke"): "parcels.revoke_apikey",
    ("announcement", "adopt_label"): "parcels.adopt_announcement",
    ("announcement", "void_and_give_up"): "parcels.give_up_announcement",
    ("sparelabel", "settle_by_hand"): "parcels.settle_sparelabel",
    ("webhookdelivery", "send_again"): "parcels.resend_webhookdelivery",
}
TYPED = {"adopt_label": {"adopt": "Adopt", "tracking_number": "3S9", "carrier_id": "9",
                         "no_document": "on"}}  # fmt: skip
OPERATOR = {
    "operator:parcels": "parcels.view_parcel",
    "operator:parcel": "parcels.view_parcel",
    "operator:label": "parcels.view_document",
    "operator:send_again": "parcels.resend_webhookdelivery",
    "operator:review": "parcels.view_announcement",
    "live_controls": "parcels.control_live",
}
# Nobody has logged in to these; offload's are closed to all but fronts and hub.
PUBLIC = {
    "login",
    "front_page",
    "operator:start",
    "tracking_page",
    "alive",
    "ready",
    "metrics",
    "icon",
}
Rows = dict[type[Model], Model]
_numbers = count()


def client_of(permissions: Any) -> Client:
    """Return the client of a new staff user that has these."""
    user = User.objects.create_user(f"staff {next(_numbers)}", is_staff=True)
    user.user_permissions.set(permissions)
    client = Client()
    client.force_login(user)
    return client


def staff(*names: str) -> Client:
    found = [Permission.objects.get_by_natural_key(*natural_key(name)) for name in names]
    return client_of(found)


def natural_key(name: str) -> tuple[str, str, str]:
    app, _, codename = name.partition(".")
    (model,) = Permission.objects.filter(
        content_type__app_label=app, codename=codename
    ).values_list("content_type__model", flat=True)
    return codename, app, model


def staff_without(*names: str) -> Client:
    """Return a client with all permissions but these; who may change may see."""
    codenames = {name.partition(".")[2] for name in names}
    codenames |= {name.replace("view_", "change_") for name in codenames}
    return client_of(Permission.objects.exclude(codename__in=codenames))


def answers(ask: Callable[[Client], int], *needed: str) -> list[int]:
    """Return what staff gets: with none, with what is needed, with all but that, with all."""
    return [ask(each()) for each in (staff, lambda: staff(*needed),
                                     lambda: staff_without(*needed), staff_without)]  # fmt: skip


@pytest.fixture
def rows() -> Rows:
    """Return a row of each model that the admin knows."""
    announcement = AnnouncementFactory.create(
        parcel=LabelledParcelFactory.create(), state=State.NEEDS_REVIEW
    )
    parcel, account = announcement.parcel, announcement.account
    attempt = Attempt.objects.create(announcement=announcement, fence=1, outcome="unknown")
    endpoint = WebhookEndpoint.objects.create(account=account, url="https://shop.test/hook")
    event = WebhookEvent.objects.create(account=account, parcel=parcel, status=1000)
    delivery = WebhookDelivery.objects.create(event=event, endpoint=endpoint, state="failed")
    WebhookAttempt.objects.create(delivery=delivery, duration=0.2, status=500)
    user = User.objects.create_user("somebody")
    made: list[Model] = [
        account,
        announcement,
        parcel,
        attempt,
        endpoint,
        delivery,
        user,
        ApiKey.generate(account)[0],
        Brand.objects.create(account=account, name="x"),
        CarrierContract.objects.create(account=account, carrier="postnl"),
        Document.objects.filter(parcel=parcel)[0],
        Group.objects.create(name="x"),
        Hold.objects.create(id="x", account=account, question={}, deadline_at=parcel.date_created),
        Integration.objects.create(account=account, shop_name="x"),
        *LogEntry.objects.log_actions(user.pk, [account], 2, "x"),
        SenderAddress.objects.create(account=account, city="x", country="NL"),
        SpareLabel.objects.create(
            announcement=announcement, tracking_number="3S7", source="answer", carrier_id="7"
        ),
        TrackingEvent.objects.create(
            parcel=parcel, carrier="postnl", status=22, at=parcel.date_created
        ),
    ]
    return {type(row): row for row in made}


def model_pages() -> Iterator[tuple[admin.ModelAdmin[Any], str]]:
    for model_admin in admin.site._registry.values():
        start = f"{model_admin.opts.app_label}_{model_admin.opts.model_name}_"
        for pattern in model_admin.get_urls():
            if pattern.name:  # the other one only redirects
                yield model_admin, pattern.name.removeprefix(start)


def page_of(model_admin: admin.ModelAdmin[Any], page: str, rows: Rows) -> str:
    opts = model_admin.opts
    key = [] if page in {"changelist", "add"} else [rows[model_admin.model].pk]
    return reverse(f"admin:{opts.app_label}_{opts.model_name}_{page}", args=key)


PAGES = list(model_pages())


@pytest.mark.parametrize(
    ("model_admin", "page"), PAGES, ids=[f"{each.opts.model_name}-{page}" for each, page in PAGES]
)
def test_a_page_of_the_admin_asks_for_its_permission(
    model_admin: admin.ModelAdmin[Any], page: str, rows: Rows
) -> None:
    path, verb = page_of(model_admin, page, rows), VERBS[page]
    app, model = model_admin.opts.app_label, model_admin.opts.model_name
    needed = [f"{app}.{verb}_{model}"]
    if (model, page) == ("user", "add"):
        needed.append("auth.change_user")  # Django's own rule: a new user could be given anything
    never = isinstance(model_admin, ReadOnly) and verb != "view"
    never |= isinstance(model_admin, SwitchedOff) and verb == "delete"
    expected = [403] * 4 if never else [403, 200, 403, 200]
    assert answers(lambda client: client.get(path).status_code, *needed) == expected


def lost_with(model: type[Model]) -> set[type[Model]]:
    """Return the models whose rows Django reads to delete one of this model."""
    found = {rel.related_model for rel in model._meta.related_objects}
    cascading = {rel.related_model for rel in model._meta.related_objects
                 if rel.on_delete is models.CASCADE} - {model}  # fmt: skip
    return found.union(*(lost_with(each) for each in cascading))


def test_no_page_that_deletes_reads_rows_without_bound() -> None:
    """With 20,000 parcels a contract's took 35 s and 84 MB."""
    deletable = [each.model for each in admin.site._registry.values()
                 if not isinstance(each, ReadOnly | SwitchedOff)]  # fmt: skip
    growing = {Parcel, Announcement, WebhookEvent, WebhookDelivery}
    assert {model for model in deletable if lost_with(model) & growing} == set()


@pytest.mark.parametrize("model_admin", admin.site._registry.values(), ids=str)
def test_seeing_is_not_writing(model_admin: admin.ModelAdmin[Any], rows: Rows) -> None:
    app, model = model_admin.opts.app_label, model_admin.opts.model_name
    reader = staff(f"{app}.view_{model}")
    pages = [page_of(model_admin, page, rows) for page in ("add", "change", "delete")]
    assert [reader.post(page, {"post": "yes"}).status_code for page in pages] == [403] * 3


def test_the_admin_has_no_other_pages() -> None:
    named = {pattern.name for pattern in admin.site.get_urls() if isinstance(pattern, URLPattern)}
    assert named == OWN_PAGES
    assert {page for _, page in PAGES} == set(VERBS)
    page = staff().get("/admin/")
    assert page.status_code == 200
    assert page.context["app_list"] == []


def actions() -> Iterator[tuple[admin.ModelAdmin[Any], Any, str]]:
    for model_admin in admin.site._registry.values():
        for action, name, _ in model_admin._get_base_actions():  # type: ignore[attr-defined] # private
            yield model_admin, action, name


def test_no_action_goes_without_a_permission() -> None:
    found = list(actions())
    assert [
        name for _, action, name in found if not getattr(action, "allowed_permissions", ())
    ] == []
    ours = {(each.opts.model_name, name) for each, _, name in found if name != "delete_selected"}
    assert ours == set(ACTIONS)


def stored() -> dict[str, list[Any]]:
    watched = (Account, Announcement, ApiKey, SpareLabel, WebhookDelivery)
    return {
        model.__name__: list(model._default_manager.order_by("pk").values()) for model in watched
    }


@pytest.mark.parametrize(("model", "action"), ACTIONS)
@pytest.mark.parametrize("which", ["none", "seeing", "all but it", "it", "all"])
def test_an_action_is_done_and_logged_with_its_permission_only(
    model: str, action: str, which: str, rows: Rows
) -> None:
    needed, seeing = ACTIONS[model, action], f"parcels.view_{model}"
    client = {
        "none": staff,
        "seeing": lambda: staff(seeing),
        "all but it": lambda: staff_without(needed),
        "it": lambda: staff(needed, seeing),
        "all": staff_without,
    }[which]()
    row = next(row for kind, row in rows.items() if kind._meta.model_name == model)
    before, logged = stored(), LogEntry.objects.count()
    client.post(
        reverse(f"admin:parcels_{model}_changelist"),
        {"action": action, "_selected_action": str(row.pk), **TYPED.get(action, {})},
    )
    done = which in {"it", "all"}
    assert (stored() != before) is done
    assert LogEntry.objects.count() - logged == done
    if done:
        entry = LogEntry.objects.latest("pk")
        assert (entry.object_id, entry.user_id) == (
            str(row.pk),
            int(client.session["_auth_user_id"]),
        )
        assert entry.change_message


def named(patterns: Any, namespace: str = "") -> Iterator[str]:
    """Yield the names of all pages but the API's and the admin's, which have tests of their own."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            if str(pattern.pattern) not in {"^/?api/v2/", "admin/"}:
                yield from named(
                    pattern.url_patterns,
                    f"{pattern.namespace}:" if pattern.namespace else namespace,
                )
        else:
            yield f"{namespace}{pattern.name}"


def test_no_page_goes_without_a_permission() -> None:
    assert set(named(get_resolver("shipping.urls").url_patterns)) == OPERATOR.keys() | PUBLIC


def test_a_refusal_says_why() -> None:
    answer = staff().get("/operator/review")
    assert answer.status_code == 403
    assert "lacks the permission" in answer.content.decode()


def test_the_permissions_are_documented() -> None:
    text = (settings.BASE_DIR / "docs" / "operations.md").read_text()
    table = text.partition("## Permissions")[2].partition("\n## ")[0]
    ours = {*ACTIONS.values(), *OPERATOR.values()}
    assert {name for name in ours if f"`{name}`" not in table} == set()


@pytest.fixture
def live_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LIVE_URL", "https://live.test")
    monkeypatch.setattr(live, "LIVE_SECRET", "s" * 50)


@pytest.mark.parametrize(("page", "needed"), OPERATOR.items())
def test_a_page_of_the_operator_asks_for_its_permission(
    page: str, needed: str, rows: Rows, live_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parcels.views.operator.as_png", lambda *_: b"picture")
    parcel, delivery = rows[Parcel].pk, rows[WebhookDelivery].pk
    arguments = {"operator:parcel": [parcel], "operator:label": [parcel],
                 "operator:send_again": [parcel, delivery]}  # fmt: skip
    path = reverse(page, args=arguments.get(page, []))
    logs = page in {"operator:send_again", "live_controls"}
    fine = 302 if page == "operator:send_again" else 200
    logged = LogEntry.objects.count()

    def ask(client: Client) -> int:
        return (client.post if page == "operator:send_again" else client.get)(path).status_code

    assert answers(ask, needed) == [403, fine, 403, fine]
    assert LogEntry.objects.count() - logged == (2 if logs else 0)


def test_no_login_ends_at_another_origin(client: Client, live_page: None) -> None:
    """`form-action 'self'` covers a form's redirects: Chromium would show nothing."""
    client.force_login(User.objects.create_superuser("chief"))
    answer = client.get(reverse("live_controls"))
    assert answer.status_code == 200
    link = "https://live.test/#ticket="
    assert f'<a href="{link}' in answer.content.decode()
    assert f"url={link}" in answer.content.decode()
    assert answer["Cache-Control"] == "no-store"
