"""Forget one receiver: remove a person's data at the person's request."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from parcels.models import Account
from parcels.selectors import parcels_of, parcels_of_receiver
from parcels.services.forget import forget_receiver
from parcels.services.tidy import delete_discarded


class Command(BaseCommand):
    help = (
        "Remove a receiver's name, addresses, goods and documents from an account's parcels and "
        "answers. Numbers, states and countries stay, drafts are deleted, and running "
        "announcements are left: then run it again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("account", type=int, help="the account's id")
        who = parser.add_mutually_exclusive_group(required=True)
        who.add_argument("--email", default="", help="the receiver's, or the sender's of a return")
        who.add_argument("--parcel", type=int, help="one parcel's id")

    def handle(
        self, *args: Any, account: int, email: str, parcel: int | None, **options: Any
    ) -> None:
        owner = Account.objects.filter(pk=account).first()
        if owner is None:
            raise CommandError(f"there is no account {account}")
        parcels = (
            parcels_of_receiver(owner, email) if email else parcels_of(owner).filter(pk=parcel or 0)
        )
        done = forget_receiver(owner, parcels, email)
        self.stdout.write(f"removed: {_listed(done.removed)}; deleted: {_listed(done.deleted)}")
        try:
            while delete_discarded():
                pass
        except Exception as error:
            raise CommandError(
                "the storage of labels is in trouble: the sweeper deletes the files when it is back"
            ) from error
        if not done.answered:
            raise CommandError("Redis failed: its answers expire in five minutes")
        if done.left or done.waiting:
            raise CommandError(
                f"left: {_listed(done.left)}, and {done.waiting} answers: they are under way, or a "
                "client may still fetch the answer, for three minutes at most; run it again"
            )


def _listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids)) or "none"
