"""Routes under `/api/v2/`. Each address works with and without a trailing slash."""

from collections.abc import Callable
from typing import Any

from django.http import HttpResponseBase
from django.urls import URLPattern, re_path

from parcels.views.catalogue import ShippingMethodsView, ShippingMethodView
from parcels.views.coroutine import waiting
from parcels.views.documents import (
    CustomsDeclarationView,
    DocumentView,
    LabelsView,
    LabelView,
    PrinterView,
)
from parcels.views.health import CarriersView
from parcels.views.integrations import IntegrationsView, IntegrationView
from parcels.views.parcels import CancelView, ParcelsView, ParcelView, StatusesView
from parcels.views.schema import DocsView, SchemaView
from parcels.views.shop import (
    BrandsView,
    ContractsView,
    ContractView,
    SenderAddressesView,
    SenderAddressView,
    UserView,
)
from parcels.views.tracking import AttemptsView, ReturnPortalView, TrackingView
from parcels.views.webhooks import DeliveriesView, EndpointsView, EndpointView, ResendView


def route(pattern: str, view: Callable[..., HttpResponseBase], name: str) -> URLPattern:
    """Return the route in both forms."""
    return re_path(rf"^{pattern}/?$", view, name=name)


_ID = r"(?P<parcel_id>\d+)"

urlpatterns: list[Any] = [
    route(r"parcels", waiting(ParcelsView.as_view()), "parcels"),
    route(r"parcels/statuses", StatusesView.as_view(), "statuses"),
    route(rf"parcels/{_ID}", waiting(ParcelView.as_view()), "parcel"),
    route(rf"parcels/{_ID}/cancel", CancelView.as_view(), "cancel"),
    route(rf"parcels/{_ID}/attempts", AttemptsView.as_view(), "attempts"),
    route(rf"parcels/{_ID}/return_portal_url", ReturnPortalView.as_view(), "return_portal"),
    route(rf"parcels/{_ID}/documents/(?P<kind>[a-z0-9-]+)", DocumentView.as_view(), "document"),
    route(r"labels", LabelsView.as_view(), "labels"),
    route(rf"labels/{_ID}", LabelView.as_view(), "label"),
    route(
        rf"labels/(?P<printer>normal_printer|label_printer)(?:/{_ID})?",
        PrinterView.as_view(),
        "printer",
    ),
    route(r"customs_declaration/normal_printer", CustomsDeclarationView.as_view(), "declarations"),
    route(
        rf"customs_declaration/normal_printer/{_ID}",
        CustomsDeclarationView.as_view(),
        "declaration",
    ),
    route(r"tracking/(?P<number>[^/]+)", TrackingView.as_view(), "tracking"),
    route(r"user", UserView.as_view(), "user"),
    route(r"user/addresses/sender", SenderAddressesView.as_view(), "sender_addresses"),
    route(
        r"user/addresses/sender/(?P<address_id>\d+)", SenderAddressView.as_view(), "sender_address"
    ),
    route(r"contracts", ContractsView.as_view(), "contracts"),
    route(r"contracts/(?P<contract_id>\d+)", ContractView.as_view(), "contract"),
    route(r"brands", BrandsView.as_view(), "brands"),
    route(r"integrations", IntegrationsView.as_view(), "integrations"),
    route(r"integrations/(?P<integration_id>\d+)", IntegrationView.as_view(), "integration"),
    route(r"carriers", CarriersView.as_view(), "carriers"),
    route(r"shipping_methods", ShippingMethodsView.as_view(), "shipping_methods"),
    route(r"shipping_methods/(?P<method_id>\d+)", ShippingMethodView.as_view(), "shipping_method"),
    route(r"webhooks", EndpointsView.as_view(), "webhooks"),
    route(r"webhooks/(?P<webhook_id>\d+)", EndpointView.as_view(), "webhook"),
    route(r"webhooks/(?P<webhook_id>\d+)/deliveries", DeliveriesView.as_view(), "deliveries"),
    route(r"webhooks/deliveries/(?P<delivery_id>\d+)/resend", ResendView.as_view(), "resend"),
    route(r"schema", SchemaView.as_view(), "schema"),
    route(r"docs", DocsView.as_view(), "docs"),
]
