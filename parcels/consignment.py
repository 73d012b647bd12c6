"""What a call to a carrier needs: its rows, its contract, and the data for the carrier."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db.models import OuterRef, QuerySet, Subquery
from django.utils.crypto import salted_hmac

from carriers.base import Address, Consignment, Item
from parcels import faults
from parcels.models import Announcement, CarrierContract, Parcel
from parcels.representation import divide_address


def consignment(
    announcement: Announcement, parcel: Parcel, credentials: dict[str, str]
) -> Consignment:
    """Return the consignment."""
    return Consignment(
        reference=announcement.reference,
        product=str(parcel.shipping_method),
        receiver=receiver(parcel),
        sender=sender(parcel),
        weight_g=int(parcel.weight * 1000),
        credentials=credentials,
        order_number=parcel.order_number,
        items=tuple(_item(item) for item in parcel.parcel_items),
    )


def credentials_hashes(credentials: dict[str, str]) -> list[str]:
    """Return hashes that identify these credentials, one per secret key (current and fallbacks).

    Keyed: a password can't be guessed from a dump.
    """
    text = json.dumps(credentials, sort_keys=True)
    return [
        salted_hmac("carrier credentials", text, secret=key).hexdigest()[:16]
        for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    ]


def receiver(parcel: Parcel) -> Address:
    """Return where the parcel goes."""
    street, number = divide_address(parcel.address, parcel.house_number)
    return Address(
        name=parcel.name,
        company=parcel.company_name,
        street=street,
        house_number=number,
        street_2=parcel.address_2,
        postal_code=parcel.postal_code,
        city=parcel.city,
        state=parcel.to_state or "",
        country=parcel.country,
        email=parcel.email,
        phone=parcel.telephone,
    )


def sender(parcel: Parcel) -> Address:
    """Return the sender: the parcel's own fields, else the account's name."""
    given = parcel.from_address
    if not given:
        return Address(name=parcel.account.name, company=parcel.account.company_name)
    return Address(
        name=given.get("name", ""),
        company=given.get("company_name", ""),
        street=given.get("address_1", ""),
        house_number=given.get("house_number", ""),
        street_2=given.get("address_2", ""),
        postal_code=given.get("postal_code", ""),
        city=given.get("city", ""),
        state=given.get("state", ""),
        country=given.get("country", ""),
        email=given.get("email", ""),
        phone=given.get("telephone", ""),
    )


def _item(item: dict[str, Any]) -> Item:
    return Item(
        description=item["description"],
        quantity=item["quantity"],
        weight_g=int(Decimal(item.get("weight") or 0) * 1000),
        value=Decimal(item.get("value") or 0),
        hs_code=item["hs_code"],
        origin_country=item["origin_country"],
        sku=item["sku"],
    )


def calls_about() -> QuerySet[Announcement]:
    """Return announcements with what a call about one needs: see `contracts_of_calls`."""
    defaults = CarrierContract.objects.filter(
        account_id=OuterRef("account_id"), carrier=OuterRef("carrier"), is_default=True
    )
    return Announcement.objects.select_related("parcel__account").annotate(
        default_contract=Subquery(defaults.values("pk")[:1])
    )


def contracts_of_calls(announcements: Sequence[Any]) -> dict[int, CarrierContract | None]:
    """Return the contract of each of these, which `calls_about` has read, by its id.

    It is the one that the announcement began with; at first the parcel's, or the default. None:
    ours with that carrier, of `settings.HOUSE_CREDENTIALS`.
    """
    wanted: dict[int, int | None] = {
        each.pk: each.contract_id
        if each.credentials_hash and not faults.is_off("credentials")
        else each.parcel.contract_id or each.default_contract
        for each in announcements
    }
    known = CarrierContract.objects.in_bulk(set(filter(None, wanted.values())))
    return {pk: known.get(contract or 0) for pk, contract in wanted.items()}
