"""Documents' bytes as files of the storage `labels` (Django's STORAGES) instead of in their rows.

A file is written before the row that names it, and deleted after it. A process that ends between
the two leaves a file without a row, which `parcels.services.tidy` finds; never a row without its
file. What the storage does not take in time stays in the row, and is moved later.
"""

import functools
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from time import monotonic
from uuid import uuid4

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.db import connection
from django.utils import timezone
from rest_framework.exceptions import APIException

from parcels import metrics
from parcels.models import Document

log = logging.getLogger(__name__)

ALIAS = "labels"
# Reads and writes under way in a process. A write to S3 takes some 30 ms: 250 a second.
AT_ONCE = 8
# Seconds until what was not written stays in its row. A lease has 25 left when a call ends late.
WRITE_WITHIN = 5.0
# Seconds in which a storage that failed is not asked to write: each label would wait for it.
QUIET = 10.0
# Seconds for all labels of a request, of which there may be hundreds.
READ_WITHIN = 30.0
# A folder for each minute: `parcels.services.tidy` lists one at a time.
FOLDER = "%Y-%m-%d/%H%M"

_quiet_until = 0.0


class StorageAway(APIException):
    """The files can't be read now"""

    status_code = 503
    default_detail = "The documents can't be read for the moment: try again."


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="files")


def is_configured() -> bool:
    """Tell whether there may be files: labels go to the storage, or did."""
    return ALIAS in settings.STORAGES


def storage() -> Storage:
    """Return the storage that has the files."""
    return storages[ALIAS]


def store(documents: Sequence[Document]) -> None:
    """Write the bytes of these unsaved rows to the storage; not in a transaction.

    What it does not take within WRITE_WITHIN keeps its bytes.
    """
    global _quiet_until
    if monotonic() < _quiet_until:
        metrics.STORAGE_TROUBLE.labels("quiet").inc(len(documents))
        return
    writing = {_pool().submit(_write, each): each for each in documents}
    written, late = wait(writing, WRITE_WITHIN)
    for each in late:
        each.cancel()
    failed = [each.exception() for each in written if each.exception()]
    if failed or late:
        _quiet_until = monotonic() + QUIET
        metrics.STORAGE_TROUBLE.labels("write").inc(len(failed) + len(late))
        log.error("%s documents stay in their rows: %s", len(failed) + len(late), failed[:1])
    for future in written:
        if not future.exception():
            writing[future].file, writing[future].content = future.result(), b""


def _write(document: Document) -> str:
    folder = timezone.now().strftime(FOLDER)
    name = f"{folder}/{document.parcel_id}-{uuid4().hex}.{document.format}"
    return storage().save(name, ContentFile(bytes(document.content)))


def contents(documents: Sequence[Document]) -> list[bytes | None]:
    """Return the rows' bytes; None where the storage has lost a file.

    Raises:
        StorageAway: it does not answer.
    """
    if all(each.file is None for each in documents):
        return [bytes(each.content) for each in documents]
    connection.close()  # nobody waits with one in hand
    try:
        return list(_pool().map(_read, documents, timeout=READ_WITHIN))
    except Exception as error:
        metrics.STORAGE_TROUBLE.labels("read").inc()
        log.exception("documents can't be read")
        raise StorageAway from error


def _read(document: Document) -> bytes | None:
    if document.file is None:
        return bytes(document.content)
    try:
        with storage().open(document.file) as file:
            return bytes(file.read())
    except FileNotFoundError:
        metrics.STORAGE_TROUBLE.labels("lost").inc()
        log.error("document %s: its file %s is gone", document.pk, document.file)
        return None
