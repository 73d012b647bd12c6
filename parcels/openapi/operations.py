"""What each route takes and answers, by the route's name and the method."""

from dataclasses import dataclass, field
from typing import Any

from parcels import limits
from parcels.openapi.shapes import (
    LINK,
    TEXT,
    WHOLE,
    Shape,
    listing,
    one_of,
    or_null,
    record,
    ref,
)

JSON = "application/json"
DOCUMENTS = ("application/pdf", "application/zpl", "image/png")
PARCEL = record(parcel=ref("Parcel"))
PARCELS = record(parcels=listing(ref("Parcel")))
PAGE = record(next=or_null(LINK), previous=or_null(LINK), parcels=listing(ref("Parcel")))
SEVERAL = record(
    optional=("failed_parcels",),
    parcels=listing(ref("Parcel")),
    failed_parcels=listing(ref("FailedParcel")),
)
CREATED: Shape = {"anyOf": [PARCEL, SEVERAL]}
# What the page shows, in its order; the first part of a path names the group.
GROUPS = {
    "parcels": "Create, show, change and cancel parcels",
    "labels": "Labels to print",
    "tracking": "Where a parcel has been",
    "webhooks": "Get a message when a parcel changes; deliveries",
    "shipping_methods": "Shipping methods, with carrier and price",
    "carriers": "Health of each carrier",
    "customs_declaration": "Documents for parcels that leave the EU customs union",
    "user": "Your account and its sender addresses",
    "contracts": "Your contracts with carriers",
    "brands": "Your brands",
    "integrations": "Your shop systems",
}


def query(name: str, shape: Shape = TEXT, description: str = "", **extra: Any) -> Shape:
    """Return a parameter of the query."""
    return {"in": "query", "name": name, "schema": shape, "description": description, **extra}


ERRORS = query("errors", one_of("verbose", "verbose-carrier"), "How failures are shown")
CARRIER_ERRORS = query("errors", one_of("verbose-carrier"), "Show why a carrier refused")
NUMBER: Shape = {"type": "integer", "minimum": 0, "maximum": limits.INTEGER}
WAIT = query("wait", NUMBER, "Seconds to wait; over the maximum as if it were that")
PREFER: Shape = {
    "in": "header",
    "name": "Prefer",
    "schema": TEXT,
    "description": "`respond-async`, or `wait=N` seconds at most (RFC 7240); both: as `wait=N`",
}
IDEMPOTENCY_KEY: Shape = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "minLength": 1, "maxLength": limits.IDEMPOTENCY_KEY},
    "description": "The same key and body create nothing new; other routes ignore it",
}
FILTERS = [
    query("parcel_status", NUMBER),
    query("tracking_number"),
    query("external_reference"),
    query("order_number"),
    query("updated_after", description="ISO 8601"),
    query("announced_after", description="ISO 8601"),
    query("ids", description="At most 100 ids, separated by commas"),
    query("cursor", description="From `next` or `previous`"),
    CARRIER_ERRORS,
]
START_FROM = query("start_from", {"type": "integer", "minimum": 0, "maximum": 3})
FORM = query("format", one_of("pdf", "zpl", "png"))
_NO_ZONES = "Accepted, without effect: our carriers have no zones"
METHOD_FILTERS = [
    query("sender_address", description="Only methods from its country; or `all`"),
    query("service_point_id", description="Only methods to a service point"),
    query("is_return", description="Accepted, without effect: each carrier takes returns"),
    query("from_postal_code", description=_NO_ZONES),
    query("to_postal_code", description=_NO_ZONES),
    query("to_country", description="Only methods to this country; two letters"),
]

# Bodies; the names are those of the serializers that read them.
ONE: Shape = record(parcel=ref("ParcelIn")) | {"additionalProperties": True}
MANY: Shape = record(parcels=listing(ref("ParcelIn"), minItems=1, maxItems=limits.PARCELS)) | {
    "additionalProperties": True
}
CHANGE: Shape = record(
    parcel={
        "allOf": [
            ref("PatchedParcelIn"),
            {"type": "object", "required": ["id"], "properties": {"id": WHOLE}},
        ]
    }
)
LABELS: Shape = record(
    label=record(
        parcels=listing({"type": "integer", "minimum": 1}, minItems=1, maxItems=limits.IDS)
    )
)


# README's: the answer has the label.
EXAMPLE = {
    "parcel": {
        "name": "Ada Example",
        "address": "Havenstraat",
        "house_number": "12",
        "city": "Utrecht",
        "postal_code": "3511 AB",
        "country": "NL",
        "weight": "2.000",
        "request_label": True,
        "shipment": {"id": 8},
    }
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of a route. `answers` by status: a shape, None without a body, or DOCUMENTS."""

    summary: str
    answers: dict[int, Shape | tuple[str, ...] | None]
    parameters: list[Shape] = field(default_factory=list)
    body: Shape | None = None
    example: Any = None  # of the body; a made-up one fits its patterns and nothing else
    errors: tuple[int, ...] = ()  # beside those that every route has


def shown(summary: str, shape: Shape, *parameters: Shape, **options: Any) -> Operation:
    """Return a GET that answers 200."""
    return Operation(summary, {200: shape}, list(parameters), **options)


OPERATIONS: dict[tuple[str, str], Operation] = {
    ("parcels", "GET"): shown("List parcels, newest first", PAGE, *FILTERS, errors=(404,)),
    ("parcels", "POST"): Operation(
        "Create one parcel or several",
        {200: CREATED, 202: CREATED},
        [ERRORS, PREFER, IDEMPOTENCY_KEY],
        {"anyOf": [ONE, MANY]},
        EXAMPLE,
        errors=(409, 422),
    ),
    ("parcels", "PUT"): Operation(
        "Change a parcel that is not announced, or announce it",
        {200: PARCEL, 202: PARCEL},
        [CARRIER_ERRORS, PREFER],
        CHANGE,
        {"parcel": {"id": 1, "weight": "1.500", "request_label": True}},
        errors=(404, 409),
    ),
    ("parcel", "GET"): shown(
        "Show a parcel; with wait=N, once its announcement has ended", PARCEL, WAIT, CARRIER_ERRORS
    ),
    ("cancel", "POST"): Operation(
        "Cancel a parcel", {200: ref("Verdict"), 202: ref("Verdict"), 410: ref("Verdict")}
    ),
    ("attempts", "GET"): shown(
        "List each attempt at the carrier", record(attempts=listing(ref("Attempt")))
    ),
    ("return_portal", "GET"): shown("Show the return portal", record(url=LINK)),
    ("statuses", "GET"): shown("List all statuses", listing(ref("Status"))),
    ("document", "GET"): Operation(
        "Get a document of a parcel",
        {200: DOCUMENTS},
        [FORM, query("dpi", NUMBER)],
    ),
    ("labels", "POST"): Operation(
        "Show where the labels of several parcels are",
        {200: record(label=ref("LabelLinks"))},
        body=LABELS,
        example={"label": {"parcels": [1, 2]}},
        errors=(404,),
    ),
    ("label", "GET"): shown("Show where a label is", record(label=ref("LabelLinks"))),
    ("printer", "GET"): Operation(
        "Get labels on A6 pages, or four on an A4 sheet",
        {200: DOCUMENTS[:1]},
        [START_FROM, query("ids", description="At most 100 ids, separated by commas")],
        errors=(404,),
    ),
    ("declarations", "GET"): Operation(
        "Get customs declarations, each on an A4 sheet",
        {200: DOCUMENTS[:1]},
        [query("ids", description="At most 100 ids, separated by commas", required=True)],
        errors=(404,),
    ),
    ("declaration", "GET"): Operation(
        "Get a customs declaration on an A4 sheet", {200: DOCUMENTS[:1]}
    ),
    ("tracking", "GET"): shown("Show where a parcel has been", ref("Tracking")),
    ("user", "GET"): shown("Show the account", record(user=ref("User"))),
    ("sender_addresses", "GET"): shown(
        "List sender addresses", record(sender_addresses=listing(ref("SenderAddress")))
    ),
    ("sender_address", "GET"): shown(
        "Show a sender address", record(sender_address=ref("SenderAddress"))
    ),
    ("contracts", "GET"): shown(
        "List contracts with carriers",
        record(next=or_null(LINK), previous=or_null(LINK), contracts=listing(ref("Contract"))),
        query("carrier", description="Only contracts with this carrier, by its code"),
    ),
    ("contract", "GET"): shown("Show a contract", ref("Contract")),
    ("brands", "GET"): shown("List brands", record(brands=listing(ref("Brand")))),
    ("integrations", "GET"): shown("List integrations", listing(ref("Integration"))),
    ("integration", "GET"): shown("Show an integration", ref("Integration")),
    ("integration", "PUT"): Operation(
        "Change an integration and its webhook",
        {200: ref("Integration")},
        body=ref("IntegrationIn"),
    ),
    ("integration", "PATCH"): Operation(
        "Change the given fields of an integration",
        {200: ref("Integration")},
        body=ref("PatchedIntegrationIn"),
    ),
    ("integration", "DELETE"): Operation("Delete an integration with its webhook", {204: None}),
    ("shipping_methods", "GET"): shown(
        "List shipping methods",
        record(shipping_methods=listing(ref("ShippingMethod"))),
        *METHOD_FILTERS,
    ),
    ("shipping_method", "GET"): shown(
        "Show a shipping method",
        record(shipping_method=ref("ShippingMethod")),
        *METHOD_FILTERS,
    ),
    ("carriers", "GET"): shown(
        "Show each carrier's health", record(carriers=listing(ref("Carrier")))
    ),
    ("webhooks", "GET"): shown("List webhooks", record(webhooks=listing(ref("Webhook")))),
    ("webhooks", "POST"): Operation(
        "Register a webhook; its secret is shown only here",
        {200: record(webhook=ref("Webhook"))},
        body=record(webhook=ref("EndpointIn")),
        example={"webhook": {"url": "https://shop.example/parcels"}},
    ),
    ("webhook", "GET"): shown("Show a webhook", record(webhook=ref("Webhook"))),
    ("webhook", "PUT"): Operation(
        "Change a webhook",
        {200: record(webhook=ref("Webhook"))},
        body=record(webhook=ref("PatchedEndpointIn")),
        example={"webhook": {"active": False}},
    ),
    ("webhook", "DELETE"): Operation("Forget a webhook", {204: None}),
    ("deliveries", "GET"): shown(
        "List the newest deliveries", record(deliveries=listing(ref("WebhookDelivery")))
    ),
    ("resend", "POST"): Operation(
        "Send a delivery again", {202: record(delivery=ref("WebhookDelivery"))}, errors=(409,)
    ),
}
