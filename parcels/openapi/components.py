"""The shapes of answers, by name."""

from __future__ import annotations

import json
from pathlib import Path

from parcels.models import DeliveryState
from parcels.openapi.shapes import (
    ANYTHING,
    DIALECT_DATE,
    FLAG,
    ID,
    LINK,
    MOMENT,
    NUMBER,
    TEXT,
    WHOLE,
    Shape,
    listing,
    one_of,
    or_null,
    record,
    ref,
)

# What the README's body gets.
_SHOWN = Path(__file__).with_name("parcel.json")
EMPTY: Shape = {"type": "object", "maxProperties": 0}
FIELD_ERRORS: Shape = {"type": "object", "additionalProperties": ANYTHING}

_PARCEL = record(
    optional=("errors",),
    id=ID,
    name=TEXT,
    company_name=TEXT,
    address=TEXT,
    address_2=TEXT,
    address_divided=record(street=TEXT, house_number=TEXT),
    city=TEXT,
    postal_code=TEXT,
    telephone=TEXT,
    email=TEXT,
    date_created=DIALECT_DATE,
    date_updated=DIALECT_DATE,
    date_announced=or_null(DIALECT_DATE),
    tracking_number=TEXT,
    tracking_url=TEXT,
    weight={"type": "string", "pattern": r"^\d+\.\d{3}$", "examples": ["2.000"]},
    label={"anyOf": [ref("LabelLinks"), EMPTY]},
    documents=listing(record(type=TEXT, size=TEXT, link=LINK)),
    customs_declaration={"anyOf": [record(normal_printer=LINK, label_printer=LINK), EMPTY]},
    status=ref("Status"),
    data={"type": "object"},
    country=ref("Country"),
    shipment=or_null(record(id=WHOLE, name=TEXT)),
    shipping_method=or_null(WHOLE),
    carrier=record(code=TEXT),
    contract=or_null(WHOLE),
    type=TEXT,
    colli_uuid={"type": "string", "format": "uuid"},
    collo_nr=WHOLE,
    collo_count=WHOLE,
    awb_tracking_number=or_null(TEXT),
    box_number=or_null(TEXT),
    order_number=TEXT,
    shipment_uuid=or_null(TEXT),
    external_order_id=or_null(TEXT),
    external_shipment_id=or_null(TEXT),
    external_reference=or_null(TEXT),
    reference=TEXT,
    is_return=FLAG,
    note=TEXT,
    to_service_point=or_null(WHOLE),
    to_state=or_null(TEXT),
    to_post_number=TEXT,
    insured_value=WHOLE,
    total_insured_value=WHOLE,
    total_order_value=or_null(TEXT),
    total_order_value_currency=TEXT,
    parcel_items=listing({"type": "object"}),
    customs_invoice_nr=TEXT,
    customs_shipment_type=or_null(WHOLE),
    shipping_method_checkout_name=TEXT,
    length=or_null(TEXT),
    width=or_null(TEXT),
    height=or_null(TEXT),
    errors=record(non_field_errors=listing(TEXT)),
)

_ATTEMPT = record(
    kind=TEXT,
    date=MOMENT,
    sent_at=or_null(MOMENT),
    duration=NUMBER,
    outcome=TEXT,
    reason=TEXT,
    reference=TEXT,
    carrier=TEXT,
    carrier_id=TEXT,
    tracking_number=TEXT,
)

_SHIPPING_METHOD = record(
    id=WHOLE,
    name=TEXT,
    carrier=TEXT,
    min_weight=TEXT,
    max_weight=TEXT,
    service_point_input=TEXT,
    price=NUMBER,
    countries=listing(record(id=WHOLE, name=TEXT, price=NUMBER, iso_2=TEXT, iso_3=TEXT)),
)

_TRACKING = record(
    parcel_id=TEXT,
    carrier_code=TEXT,
    carrier_tracking_url=TEXT,
    sendcloud_tracking_url=TEXT,
    tracking_number=TEXT,
    created_at=MOMENT,
    is_return=FLAG,
    is_to_service_point=FLAG,
    is_mail_box=FLAG,
    expected_delivery_date=or_null(TEXT),
    statuses=listing(
        record(
            carrier_update_timestamp=MOMENT,
            parcel_status_history_id=TEXT,
            parent_status=TEXT,
            carrier_code=TEXT,
            carrier_message=TEXT,
        )
    ),
)

_USER = record(
    id=ID,
    username=TEXT,
    company_name=TEXT,
    company_logo=or_null(TEXT),
    email=TEXT,
    telephone=TEXT,
    address=TEXT,
    house_number=TEXT,
    postal_code=TEXT,
    city=TEXT,
    country=TEXT,
    registered=TEXT,
    data=listing(ANYTHING),
    invoices=listing(ANYTHING),
    modules=listing(ANYTHING),
)

_SENDER_ADDRESS = record(
    id=ID,
    brand_id=or_null(WHOLE),
    company_name=TEXT,
    contact_name=TEXT,
    email=TEXT,
    telephone=TEXT,
    street=TEXT,
    house_number=TEXT,
    postal_box=TEXT,
    postal_code=TEXT,
    city=TEXT,
    country=TEXT,
    country_state=or_null(TEXT),
    vat_number=or_null(TEXT),
    eori_number=or_null(TEXT),
)

_BRAND = record(
    id=ID,
    name=TEXT,
    domain=TEXT,
    website=TEXT,
    color=TEXT,
    secondary_color=TEXT,
    notify_reply_to_email=TEXT,
    notify_bcc_email=TEXT,
    hide_powered_by=FLAG,
    free_text=TEXT,
    print_logo=or_null(TEXT),
    screen_logo=or_null(TEXT),
    screen_thumb=or_null(TEXT),
)

_INTEGRATION = record(
    id=ID,
    shop_name=TEXT,
    shop_url=TEXT,
    system=TEXT,
    failing_since=or_null(MOMENT),
    last_fetch=or_null(MOMENT),
    last_updated_at=MOMENT,
    service_point_enabled=FLAG,
    service_point_carriers=listing(TEXT),
    webhook_active=FLAG,
    webhook_url=TEXT,
)

_CONTRACT = record(
    id=ID,
    carrier=record(code=TEXT, name=TEXT),
    client_id=or_null(TEXT),
    name=TEXT,
    country=or_null(TEXT),
    is_active=FLAG,
    is_default=FLAG,
)

_CARRIER = record(
    code=TEXT,
    name=TEXT,
    breaker=one_of("closed", "half_open", "open"),
    in_flight=WHOLE,
    limit=WHOLE,
    recent=record(calls=WHOLE, p50=or_null(NUMBER), p95=or_null(NUMBER), error_share=NUMBER),
)

_DELIVERY = record(
    id=ID,
    event={"type": "string", "format": "uuid"},
    action=TEXT,
    parcel=ID,
    status=WHOLE,
    state=one_of(*DeliveryState.values),
    tries=WHOLE,
    last_status=or_null(WHOLE),
    last_error=TEXT,
    next_try_at=or_null(DIALECT_DATE),
    delivered_at=or_null(DIALECT_DATE),
    attempts=listing(record(at=DIALECT_DATE, duration=NUMBER, status=or_null(WHOLE), error=TEXT)),
)

COMPONENTS: dict[str, Shape] = {
    "Attempt": _ATTEMPT,
    "Brand": _BRAND,
    "Carrier": _CARRIER,
    "Contract": _CONTRACT,
    "Country": record(iso_2=TEXT, iso_3=TEXT, name=TEXT),
    "Error": record(error=record(code=WHOLE, request=TEXT, message=TEXT)),
    "FailedParcel": record(parcel=ANYTHING, errors=FIELD_ERRORS),
    "Integration": _INTEGRATION,
    "LabelLinks": record(normal_printer=listing(LINK, minItems=4, maxItems=4), label_printer=LINK),
    "Parcel": _PARCEL | {"example": json.loads(_SHOWN.read_text())},
    "SenderAddress": _SENDER_ADDRESS,
    "ShippingMethod": _SHIPPING_METHOD,
    "Status": record(id=WHOLE, message=TEXT),
    "Tracking": _TRACKING,
    "User": _USER,
    "Verdict": record(status=one_of("cancelled", "queued", "failed", "deleted"), message=TEXT),
    "Webhook": record(
        optional=("secret",),
        id=ID,
        url=TEXT,
        active=FLAG,
        failing_since=or_null(DIALECT_DATE),
        disabled_reason=TEXT,
        date_created=DIALECT_DATE,
        secret=TEXT,
    ),
    "WebhookDelivery": _DELIVERY,
}
