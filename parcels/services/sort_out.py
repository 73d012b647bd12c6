"""What `errors=verbose` adds: of a batch each order that can't be stored is refused by itself."""

from dataclasses import replace

from rest_framework.exceptions import ValidationError

from parcels.models import Parcel
from parcels.selectors import Owned, colli_by_reference
from parcels.services.accept import Mode, Order, new_colli
from parcels.services.fill import make_announceable
from parcels.statuses import Status


def sort_out(order: Order, owned: Owned, known: dict[str, list[Parcel]]) -> None:
    """Raise a ValidationError where storing it would fail: it alone is refused, not its batch.

    `known` are the colli of the references of those before it. Of a new order one collo stands for
    all.
    """
    reference = order.fields.get("external_reference")
    if reference and reference not in known:
        known |= colli_by_reference(owned.account, [reference], locked=False)
    colli = known.get(reference or "")
    if colli is None:
        colli = new_colli(replace(order, colli=1), owned)
    elif colli[0].fingerprint != order.fingerprint:
        raise ValidationError({"external_reference": ["It names another parcel of yours."]})
    if order.mode is not Mode.STORE:
        for parcel in (each for each in colli if each.status == Status.NO_LABEL):
            make_announceable(parcel, owned.account)
    if reference:
        known[reference] = colli
