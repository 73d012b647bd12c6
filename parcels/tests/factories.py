"""Rows for tests."""

from datetime import timedelta
from typing import Any

import factory
from django.utils import timezone

from carriers.messages import Address
from parcels.models import Account, Announcement, Document, Parcel, State
from parcels.services.job import consignment
from parcels.statuses import Status

PDF = b"%PDF-1.4 a label"


class AccountFactory(factory.django.DjangoModelFactory[Account]):
    class Meta:
        model = Account

    name = factory.Sequence(lambda number: f"Shop {number}")
    read_limit = write_limit = "none"  # counting takes a Redis, and most tests have none


class ParcelFactory(factory.django.DjangoModelFactory[Parcel]):
    class Meta:
        model = Parcel

    account = factory.SubFactory(AccountFactory)
    name = "Test Receiver"
    address = "Havenstraat"
    house_number = "12"
    city = "Utrecht"
    postal_code = "3511 AB"
    country = "NL"
    email = "a@b.nl"
    weight = "2.000"
    shipping_method = 8
    carrier = "postnl"
    status = Status.BEING_ANNOUNCED


class LabelledParcelFactory(ParcelFactory):
    """A parcel whose label is there."""

    class Meta:
        skip_postgeneration_save = True

    status = Status.READY_TO_SEND
    tracking_number = factory.Sequence(lambda number: f"3SABC{number:010}")
    date_announced = factory.LazyFunction(timezone.now)

    @factory.post_generation
    def label(self: Any, create: bool, extracted: Any, **_: Any) -> None:
        if create:
            Document.objects.create(parcel=self, format="pdf", content=extracted or PDF)
            Document.objects.create(parcel=self, format="zpl", content=b"^XA^XZ")


class AnnouncementFactory(factory.django.DjangoModelFactory[Announcement]):
    class Meta:
        model = Announcement

    parcel = factory.SubFactory(ParcelFactory)
    account = factory.SelfAttribute("parcel.account")
    carrier = factory.SelfAttribute("parcel.carrier")
    state = State.PENDING
    run_at = factory.LazyFunction(timezone.now)
    wake_at = factory.LazyFunction(timezone.now)
    deadline_at = factory.LazyFunction(lambda: timezone.now() + timedelta(days=1))


def sender(parcel: Parcel) -> Address:
    """Return the sender that a carrier is told."""
    return consignment(Announcement(parcel=parcel), {}).sender
