"""The tables. Each module holds one thing; everything else imports from here."""

from parcels.models.account import Account, ApiKey
from parcels.models.announcement import Announcement, Attempt, State
from parcels.models.contract import CarrierContract
from parcels.models.document import Document
from parcels.models.hold import Hold
from parcels.models.idempotency import IdempotencyKey
from parcels.models.parcel import Parcel
from parcels.models.webhook import WebhookEvent

__all__ = [
    "Account",
    "Announcement",
    "ApiKey",
    "Attempt",
    "CarrierContract",
    "Document",
    "Hold",
    "IdempotencyKey",
    "Parcel",
    "State",
    "WebhookEvent",
]
