"""kill -9 in the middle: nothing is lost, nothing is bought twice."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.stores import PostgresServer
from deploy.tests.waiting import until
from parcels.tests.stacks import Site, running

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(240)]
ANNOUNCEMENTS = 50


@pytest.fixture(params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    database = request.param
    if database == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgresql")
        database = server.create_database("kill_worker")
    # In one go: the recovery's ramp is not what is tested here.
    with running("asgi-hold", database, CARRIER_BREAKER_MIN_CALLS="20") as site:
        yield site


def test_a_worker_killed_in_the_middle_of_fifty(site: Site) -> None:
    """Three seconds each at a carrier that sells again whenever it is asked again."""
    ids = [
        site.create(shipment=10, request_label_async=True).json()["parcel"]["id"]
        for _ in range(ANNOUNCEMENTS)
    ]
    sent = (
        "SELECT count(*) FROM parcels_announcement"
        " WHERE state = 'announcing' AND sent_at IS NOT NULL"
    )
    until(lambda: site.rows(sent)[0][0] >= 10, "ten calls", 20)
    assert site.unfinished() > 10
    site.stack.kill("worker")
    site.stack.start("worker")
    until(lambda: not site.unfinished(), "all outcomes", 90)
    assert {site.parcel(id_)["status"]["id"] for id_ in ids} == {1000}
    bought = Counter(entry["reference"] for entry in site.ledger() if entry["event"] == "booked")
    known = {row[0] for row in site.rows("SELECT reference FROM parcels_announcement")}
    assert set(bought) == known
    assert set(bought.values()) == {1}


def test_a_worker_killed_between_a_file_and_its_row(tmp_path: Path) -> None:
    """Its label is a file already, and no row says so: it is asked for again, none is without."""
    storage = {"LABELS_IN": "storage", "LABELS_URL": f"file://{tmp_path}"}
    with running(
        "asgi-hold", "sqlite", FAULT_CRASH_AT="before_commit:1", LOG_FORMAT="line", **storage
    ) as site:
        first = site.create(shipment=8, request_label_async=True).json()["parcel"]["id"]
        until(lambda: not site.stack.running("worker"), "the worker's end", 60)
        assert len([*tmp_path.rglob("*.pdf")]) == 1
        assert site.rows("SELECT count(*) FROM parcels_document") == [(0,)]
        site.stack.change_environment({"FAULT_CRASH_AT": ""})
        site.stack.restart("sweeper")
        site.stack.start("worker")
        site.wait_for_status(first, 1000, 60)
        rows = site.rows("SELECT format, file, length(content) FROM parcels_document")
        for form, file, length in rows:
            assert length == 0
            url = f"{site.api}/parcels/{first}/documents/label?format={form}"
            assert site.session.get(url, timeout=30).content == (tmp_path / file).read_bytes()
        left = {path for path in tmp_path.rglob("*.*") if path.is_file()}
        assert len(left) == 2 * len(rows)
