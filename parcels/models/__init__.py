"""The tables. Each module holds one thing; everything else imports from here."""

from parcels.models.account import Account
from parcels.models.announcement import Announcement, State
from parcels.models.api_key import ApiKey
from parcels.models.attempt import Attempt
from parcels.models.contract import CarrierContract
from parcels.models.document import DiscardedFile, Document
from parcels.models.hold import Hold
from parcels.models.idempotency import IdempotencyKey
from parcels.models.parcel import Parcel
from parcels.models.shop import Brand, Integration, SenderAddress
from parcels.models.spare import SpareLabel, SpareState
from parcels.models.tracking import FeedCursor, TrackingEvent
from parcels.models.webhook import (
    DeliveryState,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookEvent,
)

__all__ = [
    "Account",
    "Announcement",
    "ApiKey",
    "Attempt",
    "Brand",
    "CarrierContract",
    "DeliveryState",
    "DiscardedFile",
    "Document",
    "FeedCursor",
    "Hold",
    "IdempotencyKey",
    "Integration",
    "Parcel",
    "SenderAddress",
    "SpareLabel",
    "SpareState",
    "State",
    "TrackingEvent",
    "WebhookAttempt",
    "WebhookDelivery",
    "WebhookEndpoint",
    "WebhookEvent",
]
