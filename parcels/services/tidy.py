"""Keep rows and files of documents in step, a day behind: for the sweeper.

What lies between the two for so long was left by a process that died, or by a storage that was
away. A cursor goes on minute by minute, so that nothing is left out while no sweeper runs.
"""

import logging
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from time import monotonic

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from parcels import metrics
from parcels.models import DiscardedFile, Document, FeedCursor
from parcels.papers import files
from parcels.services.rows import change_rows

log = logging.getLogger(__name__)

# No process comes to write its row this long after its file; a label's lease is over in minutes.
AGE = timedelta(days=1)
CURSOR = "labels"
# The minute from which on labels stay in their rows, while LABELS_IN is "database".
LEFT_IN_ROWS = "labels left in rows"
# Seconds of a portion: the next round goes on.
PORTION = 10.0
ROWS_AT_ONCE = 100
# Names in a question: SQLite and PostgreSQL take more.
NAMES_AT_ONCE = 1000
DELETES_AT_ONCE = 500
# What `parcels.papers.files` calls them. Others are not ours to delete.
OURS = re.compile(r"(\d+)-[0-9a-f]{32}\.\w+")


def discard(documents: QuerySet[Document]) -> None:
    """Note the files of rows that the caller deletes, in its transaction."""
    if files.is_configured():
        named = documents.exclude(file=None).values_list("file", flat=True)
        DiscardedFile.objects.bulk_create(DiscardedFile(name=str(name)) for name in named)


def delete_discarded() -> int:
    """Delete a portion of the files whose rows are gone; return how many."""
    if not files.is_configured():
        return 0
    found = dict(DiscardedFile.objects.order_by("pk").values_list("pk", "name")[:DELETES_AT_ONCE])
    if found:
        _delete(list(found.values()))
        DiscardedFile.objects.filter(pk__in=found).delete()
    return len(found)


def tidy() -> None:
    """Delete what was discarded, and go on with the cursor for a while."""
    end, ripe = monotonic() + PORTION, _minute(timezone.now() - AGE)
    try:
        while delete_discarded() and monotonic() < end:
            pass
        _follow(ripe, end)
    finally:  # a storage that is away is what to alarm on
        if row := FeedCursor.objects.filter(name=CURSOR).first():
            metrics.STORAGE_BEHIND.labels(CURSOR).set((ripe - row.seq) * 60)


def _follow(ripe: int, end: float) -> None:
    on = settings.LABELS_IN == "storage"
    if on:
        _go_back()
    row = FeedCursor.objects.filter(name=CURSOR).first()
    if row is None and not on:
        return  # it was never turned on: when it is, it begins with the oldest document
    minute = row.seq if row else _begin(ripe)
    if not on:
        FeedCursor.objects.get_or_create(name=LEFT_IN_ROWS, defaults={"seq": minute})
    while minute < ripe and monotonic() < end:
        tidy_minute(minute)
        minute += 1
        FeedCursor.objects.filter(name=CURSOR, seq=minute - 1).update(seq=minute)


def _go_back() -> None:
    """Go on where labels were left in rows, if it was turned off meanwhile."""
    left = FeedCursor.objects.filter(name=LEFT_IN_ROWS).first()
    if left:
        with transaction.atomic():
            FeedCursor.objects.filter(name=CURSOR, seq__gt=left.seq).update(seq=left.seq)
            left.delete()


def _begin(ripe: int) -> int:
    oldest = Document.objects.order_by("date_created").values_list("date_created", flat=True)
    first = oldest.first()
    minute = min(_minute(first), ripe) if first else ripe
    return FeedCursor.objects.get_or_create(name=CURSOR, defaults={"seq": minute})[0].seq


def tidy_minute(minute: int) -> None:
    """Move the minute's documents to the storage, and delete its files that no row names."""
    begin = datetime.fromtimestamp(minute * 60, UTC)
    if settings.LABELS_IN == "storage":
        _move(Document.objects.filter(
            date_created__gte=begin, date_created__lt=begin + timedelta(minutes=1), file=None
        ))  # fmt: skip
    folder = begin.strftime(files.FOLDER)
    connection.close()
    try:
        _, names = files.storage().listdir(folder)
    except FileNotFoundError:
        return  # a folder of the file system is there when it has files
    ours = [name for name in names if OURS.fullmatch(name)]
    for place in range(0, len(ours), NAMES_AT_ONCE):
        _delete_nameless(folder, ours[place : place + NAMES_AT_ONCE])


def _move(rows: QuerySet[Document]) -> None:
    while found := list(rows.order_by("pk")[:ROWS_AT_ONCE]):
        connection.close()
        files.store(found)
        stored = {each.pk: each.file for each in found if each.file is not None}
        moved = change_rows(
            Document,
            [{"id": pk, "file": name} for pk, name in stored.items()],
            "file = given.file, content = %s",
            "own.file IS NULL",
            set_values=[b""],
        )
        # Their rows were deleted meanwhile, or another sweeper was first.
        _delete([str(name) for pk, name in stored.items() if pk not in moved])
        if len(stored) < len(found):
            raise files.StorageAway


def _delete_nameless(folder: str, names: list[str]) -> None:
    # By the parcel, which is in the name: a column that most rows leave empty needs no index.
    parcels = {int(name.partition("-")[0]) for name in names}
    known = set(Document.objects.filter(parcel__in=parcels).values_list("file", flat=True))
    paths = [f"{folder}/{name}" for name in names]
    nameless = [path for path in paths if path not in known]
    if nameless:
        log.warning("%s files that no row names are deleted, as %s", len(nameless), nameless[0])
        metrics.STORAGE_TROUBLE.labels("nameless").inc(len(nameless))
        _delete(nameless)


def _minute(moment: datetime) -> int:
    return int(moment.timestamp() // 60)


def _delete(names: list[str]) -> None:
    connection.close()
    with ThreadPoolExecutor(files.AT_ONCE) as pool:
        list(pool.map(files.storage().delete, names))
