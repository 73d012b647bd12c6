"""Make a restored database safe to use; run it between pg_restore and the start of workers."""

from typing import Any

from django.core.management.base import BaseCommand

from parcels.services.restored import distrust_unsent, skip_ids


class Command(BaseCommand):
    help = (
        "After a restore: mark every waiting announcement to be looked up before it is bought, and "
        "issue no id again that was issued after the backup."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        count = distrust_unsent()
        skip_ids()
        self.stdout.write(f"{count} announcements will be looked up before anything is bought")
