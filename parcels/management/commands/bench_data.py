"""Fill a PostgreSQL database with parcels, or measure what reading and claiming cost in it.

`loadtests.bench_data` runs it on a small and on a large database in turn.
"""

import json
import time
from argparse import ArgumentParser
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection, models
from django.test import Client
from django.utils import timezone

from parcels.models import Account, Announcement, ApiKey, Hold, Parcel, State
from parcels.services.claim import claim
from parcels.services.next_state import hand_back
from parcels.services.sweep import due_announcements, forget_old_holds, release_forgotten
from parcels.statuses import Status

# Parcels with something that a filter looks for: as many in a small database as in a large one.
RARE = 50
# Waiting announcements: the work at hand, which doesn't grow with the history either.
PENDING = 100
# Calls before the clock starts: plans are made, pages are read, modules are loaded.
WARM_UP = 20
SINCE = datetime(2026, 6, 1, tzinfo=UTC)
ACCOUNT = "bench"


class Command(BaseCommand):
    help = "Fill a database with parcels (--fill N), or measure and print JSON (--repeats N)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--fill", type=int, default=0)
        parser.add_argument("--repeats", type=int, default=200)

    def handle(self, *args: Any, fill: int, repeats: int, **options: Any) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("bench_data measures PostgreSQL: set DATABASE_URL")
        if fill:
            fill_database(fill)
        else:
            self.stdout.write(json.dumps(measure(repeats)))


def fill_database(count: int) -> None:
    """Make one account with so many parcels, each announced but for a few."""
    account = Account.objects.create(name=ACCOUNT, read_limit="none", write_limit="none")
    fields = {"name": "Test Receiver", "address": "Havenstraat 12", "city": "Utrecht"}
    template = Parcel.objects.create(
        account=account,
        postal_code="3511 AB",
        country="NL",
        weight="1.000",
        **{"shipping_method": 8, "carrier": "postnl", "status": Status.READY_TO_SEND, **fields},
    )
    old = f"TIMESTAMPTZ '{SINCE.isoformat()}' - (n % 100000) * INTERVAL '1 minute'"
    rare = f"n % {max(count // RARE, 1)} = 0"
    new = (
        f"CASE WHEN {rare} THEN TIMESTAMPTZ '{SINCE.isoformat()}' + INTERVAL '1 day' ELSE {old} END"
    )
    changes = {
        "tracking_number": "'3SBENCH' || n",
        "order_number": "'order-' || n",
        "external_reference": "'reference-' || n",
        "colli_uuid": "gen_random_uuid()",
        "status": f"CASE WHEN {rare} THEN {Status.ANNOUNCEMENT_FAILED} ELSE t.status END",
        "date_created": old,
        "date_updated": new,
        "date_announced": new,
    }
    copy_rows(Parcel, template.pk, changes, f"generate_series(1, {count - 1}) n")
    with connection.cursor() as cursor:
        # The checks of foreign keys were planned for an empty table: plan them again.
        cursor.execute("ANALYZE")
    fill_announcements(account, template)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def fill_announcements(account: Account, template: Parcel) -> None:
    """Announce every parcel; the newest are still to be announced."""
    first = Announcement.objects.create(
        account=account,
        parcel=template,
        carrier="postnl",
        reference=f"R{template.pk}",
        state=State.ANNOUNCED,
        deadline_at=timezone.now() + timedelta(days=365),
    )
    changes = {"parcel_id": "p.id", "reference": "'R' || p.id", "date_created": "p.date_created"}
    copy_rows(
        Announcement,
        first.pk,
        changes,
        f"(SELECT id, date_created FROM parcels_parcel WHERE id <> {template.pk}) p",  # noqa: S608
    )
    newest = Announcement.objects.order_by("-pk").values_list("pk", flat=True)[:PENDING]
    Announcement.objects.filter(pk__in=list(newest)).update(state=State.PENDING)
    fill_holds(first)


def fill_holds(announcement: Announcement) -> None:
    """Have a client wait, or have waited, for each announcement; none is too old to be kept."""
    Waiting = Hold.announcements.through
    hold = Hold.objects.create(
        id="H",
        account_id=announcement.account_id,
        question={"parcels": [announcement.parcel_id], "base": "http://localhost", "path": ""},
        deadline_at=timezone.now(),
        released_at=timezone.now(),
    )
    waiting = Waiting.objects.create(hold=hold, announcement=announcement)
    pending = f"a.state = '{State.PENDING}'"
    changes = {
        "id": "'H' || a.id",
        # A hold waits for an hour here: as long as the measurement may take.
        "deadline_at": f"now() + CASE WHEN {pending} THEN 60 ELSE 0 END * INTERVAL '1 minute'",
        "released_at": f"CASE WHEN {pending} THEN NULL ELSE now() END",
    }
    others = f"(SELECT id, state FROM parcels_announcement WHERE id <> {announcement.pk}) a"  # noqa: S608
    copy_rows(Hold, "H", changes, others)
    changes = {"hold_id": "'H' || a.id", "announcement_id": "a.id"}
    copy_rows(Waiting, waiting.pk, changes, others)


def copy_rows(
    model: type[models.Model], template: int | str, changes: dict[str, str], source: str
) -> None:
    """Insert a copy of the template for each row of `source`, with `changes` as SQL by column."""
    columns = [
        str(field.column)
        for field in model._meta.concrete_fields
        if not field.primary_key or field.column in changes
    ]
    values = [changes.get(column, f't."{column}"') for column in columns]
    table = model._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            # Materialized: without figures yet, the planner would scan the growing table per row.
            f"WITH t AS MATERIALIZED (SELECT * FROM {table} WHERE id = '{template}')"  # noqa: S608
            f" INSERT INTO {table} ({', '.join(columns)})"
            f" SELECT {', '.join(values)}"
            f" FROM t, {source}"
        )


def measure(repeats: int) -> dict[str, dict[str, float]]:
    """Return milliseconds by operation: the median of the whole call, and of its queries."""
    return {name: timed(call, repeats) for name, call in operations().items()}


def timed(call: Callable[[], object], repeats: int) -> dict[str, float]:
    """Time a call; `queries` is the part that the database took."""
    whole, queries = [], []
    for number in range(WARM_UP + repeats):
        watch = QueryWatch()
        started = time.perf_counter()
        with connection.execute_wrapper(watch):
            call()
        if number >= WARM_UP:
            whole.append((time.perf_counter() - started) * 1000)
            queries.append(watch.seconds * 1000)
    return {"whole": round(median(whole), 3), "queries": round(median(queries), 3)}


class QueryWatch:
    """Adds up the time of all queries."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any
    ) -> Any:
        started = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            self.seconds += time.perf_counter() - started


def operations() -> dict[str, Callable[[], object]]:
    """Return what is measured, each ready to call."""
    account = Account.objects.get(name=ACCOUNT)
    parcels = Parcel.objects.filter(account=account)
    middle = parcels.order_by("pk")[parcels.count() // 2]
    get = reader(account)
    newest = get("parcels").json()
    ids = ",".join(str(parcel["id"]) for parcel in newest["parcels"])
    since = SINCE.strftime("%Y-%m-%dT%H:%M:%SZ")
    reads = {
        "list": "parcels",
        "list, second page": newest["next"].partition("/api/v2/")[2],
        "poll": f"parcels/{middle.pk}",
        "filter parcel_status": f"parcels?parcel_status={Status.ANNOUNCEMENT_FAILED}",
        "filter tracking_number": f"parcels?tracking_number={middle.tracking_number}",
        "filter order_number": f"parcels?order_number={middle.order_number}",
        "filter external_reference": f"parcels?external_reference={middle.external_reference}",
        "filter updated_after": f"parcels?updated_after={since}",
        "filter announced_after": f"parcels?announced_after={since}",
        "filter ids": f"parcels?ids={ids}",
    }
    return {
        **{name: partial(get, path) for name, path in reads.items()},
        "claim": claim_and_return(),
        "sweep": lambda: list(due_announcements()),
        "sweep, holds": lambda: (release_forgotten(), forget_old_holds()),
    }


def reader(account: Account) -> Callable[[str], Any]:
    """Return a GET below /api/v2/ with the account's keys."""
    key, secret = ApiKey.generate(account)
    basic = b64encode(f"{key.public_key}:{secret}".encode()).decode()
    client = Client(headers={"Authorization": f"Basic {basic}", "Host": "localhost"})

    def get(path: str) -> Any:
        response = client.get(f"/api/v2/{path}")
        if response.status_code != 200:
            raise CommandError(f"GET {path}: {response.status_code} {response.content!r}")
        return response

    return get


def claim_and_return() -> Callable[[], None]:
    """Return a claim of a pending announcement that gives it back afterwards."""
    pending = list(Announcement.objects.filter(state=State.PENDING).values_list("pk", flat=True))

    def once() -> None:
        claimed = next(iter(claim(pending[:1])), None)
        if claimed is None:
            raise CommandError("nothing was claimed")
        hand_back([(claimed, 0)])
        pending.append(pending.pop(0))

    return once
