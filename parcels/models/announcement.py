"""Announcements: registering a parcel at its carrier.

The row is the source of truth; every message about it is only a wake-up.
"""

import secrets
from functools import partial

from django.db import models
from django.db.models.functions import Now

from parcels.models.account import Account
from parcels.models.contract import CarrierContract
from parcels.models.parcel import Parcel


class State(models.TextChoices):
    """pending → announcing → announced | failed | unknown; unknown is reconciled, never retried."""

    PENDING = "pending"
    ANNOUNCING = "announcing"
    UNKNOWN = "unknown"
    NEEDS_REVIEW = "needs_review"
    ANNOUNCED = "announced"
    FAILED = "failed"
    CANCELLED = "cancelled"
    VOIDED = "voided"


# A parcel has at most one announcement in these: it is bought, or may be.
LIVE = [
    State.PENDING,
    State.ANNOUNCING,
    State.UNKNOWN,
    State.NEEDS_REVIEW,
    State.ANNOUNCED,
]
# Somebody may be waiting for it.
OPEN = [State.PENDING, State.ANNOUNCING, State.UNKNOWN, State.NEEDS_REVIEW]


class Announcement(models.Model):
    """One purchase of one label, over all its tries."""

    # Nothing searches by it: an account with parcels stays.
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="+", db_index=False)
    parcel = models.ForeignKey(Parcel, on_delete=models.CASCADE, related_name="announcements")
    carrier = models.CharField(max_length=32)
    # What the carrier knows it by, over all its tries: 24 characters, never used twice.
    reference = models.CharField(max_length=32, unique=True, default=partial(secrets.token_hex, 12))
    state = models.CharField(max_length=16, choices=State.choices, default=State.PENDING)

    # Not before this moment: a pending one is claimed, an unknown one is reconciled.
    # By the database's clock, like the claim that compares it.
    run_at = models.DateTimeField(db_default=Now())
    # When the sweeper sends the next wake-up, should this still be pending or unknown.
    wake_at = models.DateTimeField(db_default=Now())
    # Past this moment a person decides.
    deadline_at = models.DateTimeField()
    lease_until = models.DateTimeField(null=True, blank=True)
    claimed_at = models.DateTimeField(null=True, blank=True)
    # Increased by each claim. Only the process with the latest value may record.
    fence = models.IntegerField(default=0)
    # Claims in a row without any outcome: their processes died or raised.
    claims = models.SmallIntegerField(default=0, db_default=0)
    tries = models.IntegerField(default=0)
    # When the latest try's send guard passed; from then on the carrier may have booked.
    sent_at = models.DateTimeField(null=True, blank=True)
    # When that call ended without an outcome, or at the latest may have. The settling window counts
    # from here: a carrier may still work on a request that we have given up.
    call_ended_at = models.DateTimeField(null=True, blank=True)
    # When it first became unknown. Stays: after an unknown no refusal is final.
    unknown_since = models.DateTimeField(null=True, blank=True)
    # How often a lookup has shown the carrier to have nothing.
    absences = models.SmallIntegerField(default=0)
    # Purchases that followed a proved absence.
    repeats = models.SmallIntegerField(default=0, db_default=0)
    # Time of the next late lookup of an announcement that was unknown once, and their number.
    look_at = models.DateTimeField(null=True, blank=True)
    late_looks = models.SmallIntegerField(default=0, db_default=0)
    # Fixed by the first send guard: every later call about it uses the same credentials. The hash
    # tells when the contract's were changed since.
    contract = models.ForeignKey(
        CarrierContract,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        db_index=False,
        related_name="+",
    )
    credentials_hash = models.CharField(max_length=16, blank=True, default="", db_default="")
    carrier_id = models.CharField(max_length=128, blank=True, default="")
    error = models.CharField(max_length=500, blank=True, default="")
    date_created = models.DateTimeField(auto_now_add=True)
    date_ended = models.DateTimeField(null=True, blank=True)

    # By the database's clock, in seconds, as of the claim (services.claim): since it first became
    # unknown; since the last call ended; and whether its deadline has passed.
    unknown_age = 0.0
    settled_for = 0.0
    overdue = False

    class Meta:
        permissions = [
            ("adopt_announcement", "Can adopt a label for an announcement under review"),
            ("give_up_announcement", "Can give up an announcement under review"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["parcel"],
                condition=models.Q(state__in=LIVE),
                name="one_live_announcement_per_parcel",
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=State.values), name="announcement_state_known"
            ),
        ]
        # Partial: their size is that of the work at hand, not of the history.
        indexes = [
            models.Index(
                fields=["carrier", "wake_at"],
                name="announcement_wake",
                condition=models.Q(state__in=[State.PENDING, State.UNKNOWN]),
            ),
            models.Index(
                fields=["lease_until"],
                name="announcement_lease",
                condition=models.Q(state=State.ANNOUNCING),
            ),
            models.Index(
                fields=["deadline_at"],
                name="announcement_review",
                condition=models.Q(state=State.NEEDS_REVIEW),
            ),
            models.Index(
                fields=["deadline_at"],
                name="announcement_overdue",
                condition=models.Q(state__in=[State.PENDING, State.UNKNOWN]),
            ),
            models.Index(
                fields=["look_at"],
                name="announcement_late_look",
                condition=models.Q(look_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reference} ({self.state})"
