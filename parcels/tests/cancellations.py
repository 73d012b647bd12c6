"""A parcel that is cancelled: asked for, and what is told of it. For the tests of its parts."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.utils import timezone

from carriers.tracking_feed import Page, Step
from parcels.models import FeedCursor, Parcel, WebhookEvent
from parcels.services import tracking_feed
from parcels.statuses import Status
from parcels.tests.requests import Shop

Sent = list[tuple[str, int, str]]
Answers = Callable[..., list[Any]]


def cancel(shop: Shop, parcel: Parcel) -> tuple[int, str]:
    answer = shop.post(f"parcels/{parcel.pk}/cancel", None)
    assert list(answer.json()) == ["status", "message"]
    return answer.status_code, answer.json()["status"]


def status_of(parcel: Parcel) -> int:
    return Parcel.objects.get(pk=parcel.pk).status


def events() -> list[int]:
    return list(WebhookEvent.objects.order_by("date_created").values_list("status", flat=True))


def hear(parcel: Parcel, seq: int, status: Status, *, hours_ago: int) -> None:
    """Read an event from the carriers' feed."""
    at = timezone.now() - timedelta(hours=hours_ago)
    step = Step(seq, at, parcel.carrier, parcel.tracking_number, status)
    FeedCursor.objects.update_or_create(name=tracking_feed.FEED, defaults={"seq": 0})
    assert tracking_feed.store(since=0, page=Page((step,), seq))
