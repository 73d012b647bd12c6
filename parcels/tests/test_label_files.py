"""Labels as files of a storage: none is lost, none stays behind; on a disk and in an S3."""

import importlib.util
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.files.storage import Storage
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pypdf import PdfReader

from deploy.child import Child
from deploy.ports import free_port
from deploy.readiness import wait_until_ready
from deploy.tests.fixtures import absent
from parcels import metrics
from parcels.models import Announcement, Attempt, DiscardedFile, Document, FeedCursor, Parcel, State
from parcels.papers import files
from parcels.services import review, tidy
from parcels.services.claim import prepare
from parcels.services.forget import forget_old_documents
from parcels.services.job import Result
from parcels.services.record import finish
from parcels.services.rows import inserting
from parcels.tests.factories import PDF, AnnouncementFactory, LabelledParcelFactory
from parcels.tests.requests import Shop
from parcels.tests.test_announce import STATEMENTS, announce_all, awaited, label
from parcels.tests.test_documents import a6
from shipping.file_storage import DurableFiles, files_in, objects_in

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that speaks S3, in a process; its address."""
    if not all(map(importlib.util.find_spec, ("storages", "boto3", "moto"))):
        absent("an S3", "pip install -r requirements-dev.txt")
    port, log = free_port(), tmp_path_factory.mktemp("s3") / "log"
    server = Child("s3", f"{sys.executable} -m moto.server -H 127.0.0.1 -p {port}", log=log)
    server.start()
    try:
        wait_until_ready(f"port 127.0.0.1:{port}", seconds=60, given_up=server.cause_of_death)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()


@pytest.fixture(
    params=["folder", pytest.param("s3", marks=pytest.mark.deployment)],
)
def kept(
    request: pytest.FixtureRequest, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Storage:
    """Have labels go to a storage, which is empty."""
    monkeypatch.setattr(files, "_quiet_until", 0.0)
    # A busy machine takes seconds for a process' first eight clients of S3.
    monkeypatch.setattr(files, "WRITE_WITHIN", 60.0)
    if request.param == "folder":
        entry = files_in(str(tmp_path / "labels"))
    else:
        address, bucket = request.getfixturevalue("s3"), f"labels-{uuid4().hex}"
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        given = {"endpoint_url": address, "region_name": "eu-west-1", "addressing_style": "path"}
        entry = objects_in(bucket, "parcels", given)
    settings.STORAGES = settings.STORAGES | {"labels": entry}
    settings.LABELS_IN = "storage"
    storage = files.storage()
    if request.param == "s3":
        storage.connection.create_bucket(  # type: ignore[attr-defined] # S3's
            Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
    return storage


@pytest.fixture
def a_day_later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have the sweeper's step see all that was written until now as a day old."""

    def tidy_all() -> None:
        with monkeypatch.context() as later:
            later.setattr(tidy, "AGE", timedelta(minutes=-2))
            tidy.tidy()

    return tidy_all


def stored(storage: Storage) -> set[str]:
    """Return the names of all files."""
    found = set()
    for day in _listed(storage, "")[0]:
        for minute in _listed(storage, day)[0]:
            found |= {f"{day}/{minute}/{name}" for name in _listed(storage, f"{day}/{minute}")[1]}
    return found


def _listed(storage: Storage, folder: str) -> tuple[list[str], list[str]]:
    try:
        return storage.listdir(folder)
    except FileNotFoundError:
        return [], []


def named() -> set[str | None]:
    return set(Document.objects.values_list("file", flat=True))


def a_label(shop: Shop, content: bytes = PDF) -> Parcel:
    """Return a parcel whose documents are as a worker writes them."""
    parcel: Parcel = LabelledParcelFactory.create(account=shop.account, label=content)
    rows = list(Document.objects.filter(parcel=parcel))
    files.store(rows)
    for row in rows:
        row.save()
    return parcel


def download(shop: Shop, parcel: Parcel) -> Any:
    return shop.get(f"parcels/{parcel.pk}/documents/label")


@pytest.mark.parametrize("count", [1, 20])
def test_a_label_costs_no_statement_more(
    count: int, kept: Storage, monkeypatch: Any, django_capture_on_commit_callbacks: Any
) -> None:
    monkeypatch.setattr("offload.release_many", lambda _: True)
    rows = awaited(count)
    assert announce_all(rows, django_capture_on_commit_callbacks) == STATEMENTS[connection.vendor]
    assert set(Announcement.objects.values_list("state", flat=True)) == {State.ANNOUNCED}
    assert {bytes(each.content) for each in Document.objects.all()} == {b""}
    assert named() == stored(kept)
    assert len(named()) == count


def test_by_default_there_is_no_file_and_nothing_asks_for_one(
    shop: Shop, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DOCUMENT_KEEP = 0
    monkeypatch.setattr("offload.forget", lambda _: True)
    monkeypatch.setattr(files, "storage", lambda: 1 / 0)
    with CaptureQueriesContext(connection) as asked:
        finish([Result(job, label(1), 1.0) for job in prepare([AnnouncementFactory.create().pk])])
        parcel = LabelledParcelFactory.create(account=shop.account)
        assert download(shop, parcel).content == PDF
        call_command("forget", str(shop.account.pk), "--parcel", str(parcel.pk))
        assert forget_old_documents() == 1
    assert not any("discarded" in each["sql"] for each in asked.captured_queries)


def test_the_file_is_there_before_any_row_says_so(
    kept: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies in the instant before the commit."""
    row = AnnouncementFactory.create()
    seen: list[tuple[int, bool]] = []

    class Died(BaseException):
        """As a signal would."""

    @contextmanager
    def die(*groups: Any) -> Iterator[None]:
        with inserting(*groups):
            yield
        seen.append((len(stored(kept)), Document.objects.exists()))
        raise Died

    jobs = prepare([row.pk])
    monkeypatch.setattr("parcels.services.record.inserting", die)
    with pytest.raises(Died):
        finish([Result(jobs[0], label(1), 1.0)])
    assert seen == [(1, True)]
    assert not Document.objects.exists()
    assert Announcement.objects.get().state == State.ANNOUNCING
    assert len(stored(kept)) == 1


def test_what_no_row_names_is_deleted_a_day_later(
    kept: Storage, shop: Shop, a_day_later: Callable[[], None]
) -> None:
    parcel = a_label(shop)
    of_the_dead = Document(parcel=parcel, format="pdf", content=b"%PDF nobody's")
    files.store([of_the_dead])
    folder = str(of_the_dead.file).rpartition("/")[0]
    foreign = kept.save(f"{folder}/notes.txt", io.BytesIO(b"not ours"))
    tidy.tidy()
    assert of_the_dead.file in stored(kept)  # its row may still come
    FeedCursor.objects.filter(name=tidy.CURSOR).update(seq=tidy._minute(timezone.now()) - 2)
    a_day_later()
    assert stored(kept) == {*named(), foreign}
    assert download(shop, parcel).content == PDF


@pytest.mark.parametrize("trouble", ["refuses", "hangs"])
def test_what_the_storage_does_not_take_stays_in_the_row(
    trouble: str,
    kept: Storage,
    monkeypatch: pytest.MonkeyPatch,
    a_day_later: Callable[[], None],
    django_capture_on_commit_callbacks: Any,
) -> None:
    row = AnnouncementFactory.create()
    shop = Shop(row.account)
    hanging = ThreadPoolExecutor(1)
    ended = threading.Event()

    def write(document: Document) -> str:
        if trouble == "hangs":
            ended.wait(60)
        raise OSError("no space left")

    with monkeypatch.context() as away:
        away.setattr(files, "_write", write)
        away.setattr(files, "_pool", lambda: hanging)
        away.setattr(files, "WRITE_WITHIN", 0.05)
        with django_capture_on_commit_callbacks(execute=True):
            finish([Result(job, label(1), 1.0) for job in prepare([row.pk])])
        ended.set()
        hanging.shutdown()
    row.refresh_from_db()
    assert row.state == State.ANNOUNCED
    assert download(shop, row.parcel).content == PDF
    assert stored(kept) == set()
    with pytest.raises(files.StorageAway):
        a_day_later()  # it is not asked again so soon; the cursor stays
    monkeypatch.setattr(files, "_quiet_until", 0.0)
    a_day_later()
    assert named() == stored(kept) != {None}
    assert download(shop, row.parcel).content == PDF


def test_what_is_in_rows_is_read_and_moved_in_portions(
    kept: Storage, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcels = [LabelledParcelFactory.create(account=shop.account) for _ in range(3)]
    Document.objects.update(date_created=timezone.now() - timedelta(days=2))
    assert download(shop, parcels[0]).content == PDF
    monkeypatch.setattr(tidy, "ROWS_AT_ONCE", 2)
    rows = Document.objects.order_by("date_created")
    FeedCursor.objects.create(name=tidy.CURSOR, seq=tidy._minute(rows[0].date_created))
    tidy.tidy()
    assert {bytes(each.content) for each in rows} == {b""}
    assert len(named()) == 6
    assert named() == stored(kept)
    assert [download(shop, each).content for each in parcels] == [PDF] * 3


def test_the_sweeper_begins_with_the_oldest_document(
    kept: Storage, shop: Shop, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidy, "PORTION", 600.0)  # on a slow machine, too
    LabelledParcelFactory.create(account=shop.account)
    old = timezone.now() - timedelta(days=1, minutes=3)
    Document.objects.update(date_created=old)
    settings.LABELS_IN = "database"
    tidy.tidy()  # the storage is known to all processes, and not used yet
    assert named() == {None}
    settings.LABELS_IN = "storage"
    tidy.tidy()
    assert None not in named()
    assert FeedCursor.objects.get().seq >= tidy._minute(old) + 2


def test_what_was_stored_while_it_was_off_is_moved_when_it_is_on_again(
    kept: Storage, shop: Shop, settings: Any, a_day_later: Callable[[], None]
) -> None:
    a_label(shop)
    a_day_later()
    settings.LABELS_IN = "database"
    LabelledParcelFactory.create(account=shop.account)
    begin = timezone.now() - timedelta(minutes=10)
    Document.objects.filter(file=None).update(date_created=begin)
    FeedCursor.objects.filter(name=tidy.CURSOR).update(seq=tidy._minute(begin) - 1)
    for _ in range(2):
        a_day_later()  # what no row names is still looked for
    assert FeedCursor.objects.get(name=tidy.CURSOR).seq > tidy._minute(begin)
    assert None in named()
    settings.LABELS_IN = "storage"
    for _ in range(2):
        a_day_later()
    assert None not in named()
    assert named() == stored(kept)
    assert FeedCursor.objects.get().seq > tidy._minute(begin)  # it goes back once


def test_of_two_that_move_the_same_row_one_leaves_no_file(
    kept: Storage, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    LabelledParcelFactory.create(account=shop.account)
    first = files.store

    def beaten(rows: Any) -> None:
        first(rows)
        Document.objects.update(file="theirs", content=b"")

    monkeypatch.setattr(files, "store", beaten)
    tidy._move(Document.objects.filter(file=None))
    assert named() == {"theirs"}
    assert stored(kept) == set()


def test_labels_of_rows_and_files_are_one_document(kept: Storage, shop: Shop) -> None:
    parcels = [
        LabelledParcelFactory.create(account=shop.account, label=a6("in a row")),
        a_label(shop, a6("in a file")),
    ]
    ids = ",".join(str(each.pk) for each in parcels)
    for printer in ("label_printer", "normal_printer"):
        content = shop.get(f"labels/{printer}?ids={ids}").content
        text = "".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages)
        assert text.index("in a row") < text.index("in a file")


def test_who_is_forgotten_leaves_no_file(kept: Storage, shop: Shop) -> None:
    mine, other = a_label(shop), a_label(shop)
    call_command("forget", str(shop.account.pk), "--parcel", str(mine.pk))
    assert download(shop, mine).status_code == 404
    assert stored(kept) == named()
    assert download(shop, other).content == PDF


def test_files_that_can_t_be_deleted_now_are_deleted_later(
    kept: Storage, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel = a_label(shop)

    def refuse(*_: Any) -> None:
        raise OSError("away")

    with monkeypatch.context() as away:
        away.setattr(type(kept), "delete", refuse)
        with pytest.raises(CommandError, match="storage"):
            call_command("forget", str(shop.account.pk), "--parcel", str(parcel.pk))
    assert not Document.objects.exists()
    assert len(stored(kept)) == DiscardedFile.objects.count() == 2
    tidy.tidy()
    assert stored(kept) == set()
    assert not DiscardedFile.objects.exists()


def test_documents_past_their_keeping_take_their_files_along(
    kept: Storage, shop: Shop, settings: Any
) -> None:
    a_label(shop)
    settings.DOCUMENT_KEEP = 0
    assert forget_old_documents() == 2
    tidy.tidy()
    assert stored(kept) == set()


def test_a_lost_file_is_a_404_and_a_storage_that_is_away_a_503(
    kept: Storage, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel = a_label(shop)
    with monkeypatch.context() as away:
        away.setattr(type(kept), "open", lambda *_: 1 / 0)
        assert download(shop, parcel).status_code == 503
    for name in stored(kept):
        kept.delete(name)
    lost = metrics.STORAGE_TROUBLE.labels("lost")
    before = lost._value.get()
    assert download(shop, parcel).status_code == 404
    assert lost._value.get() == before + 1


def test_evidence_that_is_adopted_becomes_a_file_of_its_own(kept: Storage, shop: Shop) -> None:
    row = AnnouncementFactory.create(parcel__account=shop.account, state=State.NEEDS_REVIEW)
    attempt = Attempt.objects.create(announcement=row, fence=1, outcome="announced")
    evidence = Document(parcel=row.parcel, format="pdf", content=PDF, attempt=attempt)
    files.store([evidence])
    evidence.save()
    spare = row.spares.create(
        attempt=attempt, carrier_id="c", tracking_number="3S1", source="answer"
    )
    found = review.Label("3S1", "c", spare=spare)
    review.adopt(row, found, review.papers_of(row, found), by="a person")
    assert len(stored(kept)) == 2
    assert stored(kept) == named()
    evidence.delete()
    assert download(shop, row.parcel).content == PDF


def test_customs_papers_are_files_too(kept: Storage, shop: Shop) -> None:
    parcel = a_label(shop)
    Parcel.objects.update(
        country="US",
        parcel_items=[{"description": "cup", "quantity": 1, "weight": "0.1", "value": "1",
                       "hs_code": "6911", "origin_country": "NL"}],
    )  # fmt: skip
    first = shop.get(f"parcels/{parcel.pk}/documents/cn23").content
    assert first.startswith(b"%PDF")
    assert shop.get(f"parcels/{parcel.pk}/documents/cn23").content == first
    assert stored(kept) == named()
    assert len(named()) == 3


def test_an_operator_sees_the_label(kept: Storage, shop: Shop, admin_client: Client) -> None:
    parcel = a_label(shop, a6("x"))
    picture = admin_client.get(f"/operator/parcels/{parcel.pk}/label.png")
    assert picture.headers["Content-Type"] == "image/png"


def test_an_operator_is_told_of_a_label_that_cannot_be_read(
    kept: Storage, shop: Shop, admin_client: Client
) -> None:
    parcel = a_label(shop, b"%PDF-1.4 nothing %%EOF")
    assert admin_client.get(f"/operator/parcels/{parcel.pk}/label.png").status_code == 404


def test_an_operator_is_told_of_a_storage_that_is_away(
    kept: Storage, shop: Shop, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    parcel = a_label(shop)
    row = AnnouncementFactory.create(parcel__account=shop.account, state=State.NEEDS_REVIEW)
    attempt = Attempt.objects.create(announcement=row, fence=1, outcome="announced")
    Document.objects.create(
        parcel=row.parcel,
        format="pdf",
        file=Document.objects.filter(parcel=parcel)[0].file,
        attempt=attempt,
    )
    spare = row.spares.create(attempt=attempt, tracking_number="3S1", source="answer")
    chosen = {"action": "adopt_label", "_selected_action": row.pk, "adopt": "Adopt"}
    monkeypatch.setattr(type(kept), "open", lambda *_: 1 / 0)
    picture = admin_client.get(f"/operator/parcels/{parcel.pk}/label.png")
    assert picture.status_code == 503
    assert b"can't be read for the moment" in picture.content
    page = admin_client.post(
        "/admin/parcels/announcement/", {**chosen, "spare": spare.pk}, follow=True
    )
    (message,) = page.context["messages"]
    assert (message.level_tag, str(message)) == ("error", files.StorageAway.default_detail)
    row.refresh_from_db()
    assert row.state == State.NEEDS_REVIEW


def test_a_spare_label_whose_file_is_lost_has_no_document(
    kept: Storage, shop: Shop, admin_client: Client
) -> None:
    row = AnnouncementFactory.create(parcel__account=shop.account, state=State.NEEDS_REVIEW)
    attempt = Attempt.objects.create(announcement=row, fence=1, outcome="announced")
    Document.objects.create(parcel=row.parcel, format="pdf", file="2026/x.pdf", attempt=attempt)
    spare = row.spares.create(
        attempt=attempt, carrier_id="c", tracking_number="3S1", source="answer"
    )
    chosen = {"action": "adopt_label", "_selected_action": row.pk, "adopt": "Adopt",
              "spare": spare.pk}  # fmt: skip
    page = admin_client.post("/admin/parcels/announcement/", chosen, follow=True)
    row.refresh_from_db()
    assert row.state == State.NEEDS_REVIEW
    assert "tick that there is no document" in page.content.decode()
    admin_client.post("/admin/parcels/announcement/", chosen | {"no_document": "on"})
    row.refresh_from_db()
    assert row.state == State.ANNOUNCED


def test_a_file_outlasts_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and every folder that is new with it are on the disk before the row is written."""
    synced: list[os.stat_result] = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number)))
    storage = DurableFiles(**files_in(str(tmp_path))["OPTIONS"])
    storage.save("2026-11-23/1405/1-a.pdf", io.BytesIO(PDF))
    names = ["2026-11-23/1405/1-a.pdf", "2026-11-23/1405", "2026-11-23", ""]
    places = [(tmp_path / name).stat() for name in names]
    assert [each.st_ino for each in synced] == [each.st_ino for each in places]
    assert (tmp_path / names[0]).stat().st_mode & 0o777 == 0o600
    storage.delete(names[0])
    assert not (tmp_path / names[1]).exists()


@pytest.mark.parametrize("refused", ["listdir", "delete"])
def test_how_far_it_is_behind_is_counted_while_the_storage_is_away(
    refused: str, kept: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("away")

    DiscardedFile.objects.create(name="2026-11-23/1405/1-a.pdf")
    two_days_ago = tidy._minute(timezone.now() - timedelta(days=2))
    FeedCursor.objects.create(name=tidy.CURSOR, seq=two_days_ago)
    monkeypatch.setattr(type(kept), refused, refuse)
    with pytest.raises(OSError, match="away"):
        tidy.tidy()
    (gauge,) = metrics.STORAGE_BEHIND.collect()
    assert [each.value >= 86_400 for each in gauge.samples] == [True]
