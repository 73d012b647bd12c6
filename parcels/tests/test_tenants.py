"""Nobody sees another account's things: every route and method, with another account's ids.

Each probe is sent twice by a stranger: with the ids of somebody else's rows, and with ids that
nobody has. The two answers must be the same but for the ids themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models import Model

from parcels.models import (
    Announcement,
    Attempt,
    Brand,
    CarrierContract,
    Document,
    Hold,
    Integration,
    Parcel,
    SenderAddress,
    State,
    TrackingEvent,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)
from parcels.statuses import Status
from parcels.tests.factories import AnnouncementFactory, LabelledParcelFactory, ParcelFactory
from parcels.tests.requests import Shop, body
from parcels.urls import urlpatterns

if TYPE_CHECKING:
    from parcels.tests.requests import Answer

pytestmark = pytest.mark.django_db
# In every text that belongs to the account: it must be in no answer to a stranger.
MARK = "Zanzibarstraat"
GHOST = 1_000_000
WATCHED: tuple[type[Model], ...] = (
    Parcel,
    Announcement,
    Attempt,
    Document,
    Hold,
    SenderAddress,
    Brand,
    Integration,
    TrackingEvent,
    WebhookEndpoint,
    WebhookDelivery,
)


@dataclass(frozen=True)
class Probe:
    """One request. `{name}` in path and body stands for an id; see `Ids`."""

    method: str
    path: str
    payload: Any = None
    headers: tuple[tuple[str, str], ...] = ()
    # A request that makes something of the stranger's own: only its status must be the same.
    makes: bool = False


def get(*paths: str) -> list[Probe]:
    return [Probe("GET", path) for path in paths]


def create(**fields: Any) -> Probe:
    return Probe("POST", "parcels", {"parcel": body(**fields)}, makes=True)


ROUTES: dict[str, list[Probe]] = {
    "parcels": [
        *get(
            "parcels",
            "parcels?ids={labelled},{stored}",
            "parcels?tracking_number={number}",
            "parcels?external_reference={reference}",
            "parcels?order_number={number}",
            "parcels?parcel_status=1000&errors=verbose-carrier",
            "parcels?updated_after=2020-01-01",
            "parcels?announced_after=2020-01-01",
        ),
        create(external_reference="{reference}"),
        create(contract="{contract}"),
        create(sender_address="{sender}"),
        Probe(
            "POST", "parcels", {"parcel": body()}, (("Idempotency-Key", "{reference}"),), makes=True
        ),
        Probe("PUT", "parcels", {"parcel": {"id": "{stored}", "city": "Delft"}}),
        Probe("PUT", "parcels", {"parcel": {"id": "{stored}", "request_label": True}}),
        Probe("PUT", "parcels", {"parcel": {"id": "{labelled}", "city": "Delft"}}),
    ],
    "parcel": get(
        "parcels/{labelled}",
        "parcels/{labelled}/",
        "parcels/{pending}?wait=0",
        "parcels/{stored}?errors=verbose-carrier",
    ),
    "cancel": [
        Probe("POST", f"parcels/{{{which}}}/cancel") for which in ("labelled", "pending", "stored")
    ],
    "attempts": get("parcels/{labelled}/attempts"),
    "return_portal": get("parcels/{labelled}/return_portal_url"),
    "document": get(
        *(
            f"parcels/{{labelled}}/documents/{kind}"
            for kind in ("label", "label?format=zpl", "label?format=png", "cn23", "qr")
        )
    ),
    "labels": [
        Probe("POST", "labels", {"label": {"parcels": ["{labelled}"]}}),
        Probe("POST", "labels", {"label": {"parcels": ["{labelled}", "{stored}"]}}),
    ],
    "label": get("labels/{labelled}"),
    "printer": get(
        "labels/normal_printer/{labelled}",
        "labels/label_printer/{labelled}",
        "labels/normal_printer?ids={labelled}&start_from=1",
        "labels/label_printer?ids={labelled},{stored}",
    ),
    "tracking": get("tracking/{number}"),
    "shipping_methods": get("shipping_methods?sender_address={sender}"),
    "shipping_method": get("shipping_methods/8?sender_address={sender}"),
    "webhooks": [
        *get("webhooks"),
        Probe("POST", "webhooks", {"webhook": {"url": "https://stranger.example/"}}, makes=True),
    ],
    "webhook": [
        *get("webhooks/{webhook}"),
        Probe("PUT", "webhooks/{webhook}", {"webhook": {"active": False}}),
        Probe("DELETE", "webhooks/{webhook}"),
    ],
    "deliveries": get("webhooks/{webhook}/deliveries"),
    "resend": [Probe("POST", "webhooks/deliveries/{delivery}/resend")],
    "integration": [
        *get("integrations/{integration}"),
        Probe("PUT", "integrations/{integration}", {"shop_name": "Taken"}),
        Probe("PATCH", "integrations/{integration}", {"webhook_url": "https://x.example/"}),
        Probe("DELETE", "integrations/{integration}"),
    ],
    "sender_address": get("user/addresses/sender/{sender}"),
    "contract": get("contracts/{contract}"),
    "declarations": get("customs_declaration/normal_printer?ids={labelled}"),
    "declaration": get("customs_declaration/normal_printer/{labelled}"),
    # These take no ids: what they show is the stranger's own, or everybody's.
    "user": get("user"),
    "sender_addresses": get("user/addresses/sender"),
    "contracts": get("contracts"),
    "brands": get("brands"),
    "integrations": get("integrations"),
    "statuses": get("parcels/statuses"),
    "carriers": get("carriers"),
    "schema": get("schema"),
    "docs": get("docs"),
}
ALL = [(name, probe) for name, probes in ROUTES.items() for probe in probes]
Ids = dict[str, int | str]


@pytest.fixture
def theirs(shop: Shop) -> Ids:
    """Return the ids of somebody's things, one of each kind."""
    account = shop.account
    brand = Brand.objects.create(account=account, name=MARK, return_portal_url="https://x.example")
    sender = SenderAddress.objects.create(
        account=account, brand=brand, street=MARK, postal_code="1", city=MARK, country="NL"
    )
    integration = Integration.objects.create(account=account, shop_name=MARK)
    words = {"name": MARK, "order_number": "3SZANZI", "account": account, "carrier_error": MARK}
    labelled = LabelledParcelFactory.create(
        tracking_number="3SZANZI",
        external_reference="zanzi-1",
        parcel_items=[{"description": MARK, "quantity": 1, "hs_code": "", "origin_country": ""}],
        country="CH",
        **words,
    )
    stored = ParcelFactory.create(status=Status.NO_LABEL, **words)
    pending = AnnouncementFactory.create(parcel=ParcelFactory.create(**words))
    bought = AnnouncementFactory.create(parcel=labelled, state=State.ANNOUNCED)
    Attempt.objects.create(announcement=bought, fence=1, outcome="announced", detail=MARK)
    TrackingEvent.objects.create(
        parcel=labelled, carrier="postnl", status=22, message=MARK, at=labelled.date_created
    )
    hook = WebhookEndpoint.objects.create(account=account, url=f"https://{MARK}.example")
    event = WebhookEvent.objects.create(account=account, parcel=labelled, status=1000)
    delivery = WebhookDelivery.objects.create(event=event, endpoint=hook)
    contract = CarrierContract.objects.create(account=account, carrier="postnl", name=MARK)
    return {
        "labelled": labelled.pk,
        "stored": stored.pk,
        "pending": pending.parcel_id,
        "number": "3SZANZI",
        "reference": "zanzi-1",
        "sender": sender.pk,
        "contract": contract.pk,
        "integration": integration.pk,
        "webhook": hook.pk,
        "delivery": delivery.pk,
    }


def ghosts(theirs: Ids) -> Ids:
    """Return ids that nobody has."""
    return {
        name: value + GHOST if isinstance(value, int) else f"{value[:-1]}x"
        for name, value in theirs.items()
    }


def filled(value: Any, ids: Ids) -> Any:
    """Put the ids where their names stand."""
    if isinstance(value, dict):
        return {key: filled(inner, ids) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, ids) for inner in value]
    if isinstance(value, str):
        whole = re.fullmatch(r"\{(\w+)\}", value)
        return ids[whole[1]] if whole else re.sub(r"\{(\w+)\}", lambda m: str(ids[m[1]]), value)
    return value


def send(shop: Shop, probe: Probe, ids: Ids) -> Answer:
    headers = {name: filled(value, ids) for name, value in probe.headers}
    payload = None if probe.payload is None else filled(probe.payload, ids)
    return shop.call(probe.method, filled(probe.path, ids), headers, payload)


def without_ids(answer: Answer, probe: Probe, ids: Ids) -> str:
    """Return the answer's body with the ids blanked that were asked for."""
    text = bytes(answer.content).decode(errors="replace")
    for value in {str(ids[name]) for name in re.findall(r"\{(\w+)\}", repr(probe))}:
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "#", text)
    return text


def snapshot(account_id: int) -> list[Any]:
    paths = {"account_id", "parcel__account_id", "announcement__account_id", "event__account_id"}
    rows = []
    for model in WATCHED:
        fields = {field.name for field in model._meta.get_fields()}
        path = next(path for path in paths if path.split("_")[0] in fields)
        rows.append(list(model._default_manager.filter(**{path: account_id}).values()))
    return rows


@pytest.mark.parametrize(("name", "probe"), ALL, ids=[f"{n}-{p.method}-{p.path}" for n, p in ALL])
def test_somebody_else_s_is_as_unknown_as_nobody_s(
    shop: Shop, other_shop: Shop, theirs: Ids, name: str, probe: Probe
) -> None:
    before = snapshot(shop.account.pk)
    foreign = send(other_shop, probe, theirs)
    unknown = send(other_shop, probe, ghosts(theirs))
    assert foreign.status_code == unknown.status_code < 500
    assert MARK not in bytes(foreign.content).decode(errors="replace")
    if not probe.makes:
        assert without_ids(foreign, probe, theirs) == without_ids(unknown, probe, ghosts(theirs))
    if re.search(r"\{(?!number|reference)\w+\}", probe.path) and "?" not in probe.path:
        assert foreign.status_code == 404
    assert snapshot(shop.account.pk) == before


ID = re.compile(r"\{\w+\}")
WITH_IDS = sorted({(name, probe.method) for name, probe in ALL if ID.search(repr(probe))})


@pytest.mark.parametrize(("name", "method"), WITH_IDS)
def test_each_route_would_show_a_leak(shop: Shop, theirs: Ids, name: str, method: str) -> None:
    """The control: sent by the owner, a probe of each route does tell theirs from nobody's."""
    probes = [probe for probe in ROUTES[name] if probe.method == method]
    assert any(tells_apart(shop, probe, theirs) for probe in probes)


def tells_apart(shop: Shop, probe: Probe, theirs: Ids) -> bool:
    answers = [(send(shop, probe, ids), ids) for ids in (ghosts(theirs), theirs)]
    unknown, own = [(a.status_code, without_ids(a, probe, ids)) for a, ids in answers]
    # What makes something shows new ids each time.
    return unknown[0] != own[0] if probe.makes else unknown != own


def test_every_route_and_method_has_its_probe() -> None:
    """A new route without an entry in ROUTES makes this fail."""
    for pattern, name, methods in routes():
        assert name in ROUTES, f"no probe for the route {pattern}"
        probed = {probe.method for probe in ROUTES[name]}
        assert methods <= probed, f"no probe for {methods - probed} of {pattern}"


def routes() -> Iterator[tuple[str, str, set[str]]]:
    for url in urlpatterns:
        view = getattr(url.callback, "cls", None) or getattr(url.callback, "view_class", None)
        unsafe = ("get", "post", "put", "patch", "delete")
        methods = {method.upper() for method in unsafe if hasattr(view, method)} or {"GET"}
        yield str(url.pattern), str(url.name), methods
