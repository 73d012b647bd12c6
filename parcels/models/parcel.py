"""Parcels: one package each."""

import uuid

from django.db import models

from parcels.models.account import Account
from parcels.models.contract import CarrierContract
from parcels.statuses import Status


class Parcel(models.Model):
    """One package. Its announcement at the carrier is a row of its own."""

    # No index of its own where another one begins with its column.
    account = models.ForeignKey(
        Account, on_delete=models.PROTECT, related_name="parcels", db_index=False
    )
    status = models.IntegerField(choices=Status.choices, default=Status.NO_LABEL)

    name = models.CharField(max_length=255)
    company_name = models.CharField(max_length=255, blank=True, default="")
    address = models.CharField(max_length=255)
    address_2 = models.CharField(max_length=255, blank=True, default="")
    house_number = models.CharField(max_length=255, blank=True, default="")
    city = models.CharField(max_length=255)
    postal_code = models.CharField(max_length=255)
    country = models.CharField(max_length=2)
    to_state = models.CharField(max_length=255, null=True, blank=True)
    telephone = models.CharField(max_length=255, blank=True, default="")
    email = models.CharField(max_length=255, blank=True, default="")
    # The sender's address where the parcel names one itself (returns); else the account's.
    from_address = models.JSONField(default=dict, blank=True)
    sender_address = models.BigIntegerField(null=True, blank=True)

    order_number = models.CharField(max_length=255, blank=True, default="")
    external_reference = models.CharField(max_length=255, null=True, blank=True)
    external_order_id = models.CharField(max_length=255, null=True, blank=True)
    external_shipment_id = models.CharField(max_length=255, null=True, blank=True)
    shipment_uuid = models.CharField(max_length=255, null=True, blank=True)
    reference = models.CharField(max_length=255, default="0")
    # SHA-256 of what made the parcel: an external_reference used again must bring the same.
    fingerprint = models.CharField(max_length=64, blank=True, default="")

    weight = models.DecimalField(max_digits=9, decimal_places=3)
    length = models.DecimalField(max_digits=8, decimal_places=2, null=True, blank=True)
    width = models.DecimalField(max_digits=8, decimal_places=2, null=True, blank=True)
    height = models.DecimalField(max_digits=8, decimal_places=2, null=True, blank=True)
    colli_uuid = models.UUIDField(default=uuid.uuid4)
    collo_nr = models.PositiveSmallIntegerField(default=0)
    collo_count = models.PositiveSmallIntegerField(default=1)

    shipping_method = models.IntegerField(null=True, blank=True)
    shipping_method_checkout_name = models.CharField(max_length=255, blank=True, default="")
    carrier = models.CharField(max_length=32, blank=True, default="")
    # Nothing searches by it: a contract is not deleted.
    contract = models.ForeignKey(
        CarrierContract, on_delete=models.PROTECT, null=True, blank=True, db_index=False
    )
    apply_shipping_rules = models.BooleanField(default=False)
    is_return = models.BooleanField(default=False)
    to_service_point = models.IntegerField(null=True, blank=True)
    to_post_number = models.CharField(max_length=255, blank=True, default="")

    insured_value = models.IntegerField(default=0)
    total_order_value = models.DecimalField(max_digits=12, decimal_places=2, null=True, blank=True)
    total_order_value_currency = models.CharField(max_length=3, blank=True, default="")
    customs_invoice_nr = models.CharField(max_length=255, blank=True, default="")
    customs_shipment_type = models.SmallIntegerField(null=True, blank=True)
    parcel_items = models.JSONField(default=list, blank=True)
    note = models.CharField(max_length=255, blank=True, default="")

    tracking_number = models.CharField(max_length=64, blank=True, default="")
    # What the carrier said when it refused; shown with errors=verbose-carrier.
    carrier_error = models.CharField(max_length=500, blank=True, default="")
    date_created = models.DateTimeField(auto_now_add=True)
    date_updated = models.DateTimeField(auto_now=True)
    date_announced = models.DateTimeField(null=True, blank=True)
    # While a cancellation is under way.
    date_cancel_requested = models.DateTimeField(null=True, blank=True)
    # When what it says of people was removed.
    date_forgotten = models.DateTimeField(null=True, blank=True)

    class Meta:
        # No model is behind the live page, and a permission needs one.
        permissions = [("control_live", "Can control the live page")]
        constraints = [
            models.UniqueConstraint(
                fields=["account", "external_reference"],
                condition=models.Q(external_reference__isnull=False),
                name="external_reference_once_per_account",
            ),
        ]
        # Every list is one account's, newest first: each filter has its index, ended by the id.
        indexes = [
            models.Index(fields=["account", "-id"], name="parcel_list"),
            models.Index(fields=["account", "status", "-id"], name="parcel_by_status"),
            models.Index(fields=["account", "tracking_number"], name="parcel_by_tracking"),
            models.Index(fields=["account", "order_number"], name="parcel_by_order"),
            models.Index(fields=["account", "date_updated"], name="parcel_by_update"),
            models.Index(fields=["account", "date_announced"], name="parcel_by_announcement"),
            models.Index(
                fields=["tracking_number"],
                name="parcel_tracking",
                condition=~models.Q(tracking_number=""),
            ),
            models.Index(
                fields=["colli_uuid"],
                name="parcel_colli",
                condition=models.Q(collo_count__gt=1),
            ),
            # The cancellations under way, for the sweeper: a handful, whatever the history.
            models.Index(
                fields=["date_cancel_requested"],
                name="parcel_cancelling",
                condition=models.Q(date_cancel_requested__isnull=False),
            ),
            # The sweeper looks for the oldest that is not forgotten yet, each round.
            models.Index(
                fields=["date_created"],
                name="parcel_age",
                condition=models.Q(date_forgotten__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"Parcel {self.pk}"
