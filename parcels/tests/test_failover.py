"""A database that was promoted: what waits is looked up before it is bought."""

import shutil
from collections.abc import Iterator

import pytest

from deploy.stack import Stack
from deploy.stores import POSTGRESQL_INSTALL, PostgresServer, StoreMissingError, postgresql_programs
from deploy.tests.fixtures import absent
from deploy.tests.waiting import until
from parcels.tests.stacks import SHORT, Site
from parcels.tests.test_silent_database import post

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(240)]


@pytest.fixture
def site() -> Iterator[Site]:
    try:
        postgresql_programs()
    except StoreMissingError:
        absent("postgresql", POSTGRESQL_INSTALL)
    with Stack("cheroot", database="postgresql", env=SHORT) as stack:
        yield Site(stack)


def promote(server: PostgresServer) -> None:
    """Begin a new timeline, as a standby's promotion does: recover from an empty archive."""
    server.child.stop()
    with (server.data / "postgresql.auto.conf").open("a") as settings:
        settings.write("restore_command = 'false'\n")
    signal = server.data / "recovery.signal"
    signal.touch()
    shutil.chown(signal, server.user or signal.owner())
    server.start()


def test_a_promoted_database_is_noticed_and_nothing_is_bought_unasked(site: Site) -> None:
    server = site.stack.postgresql
    assert server is not None
    site.stack.stop("worker")
    parcel = post(site)
    promote(server)
    until(lambda: "the database failed over" in site.stack.log("sweeper"), "its line", 30)
    assert states(site) == ["unknown"]  # written before
    site.stack.start("worker")
    site.wait_for_status(parcel, 1000, 60)
    assert site.rows("SELECT kind FROM parcels_attempt ORDER BY id")[0] == ("lookup",)
    assert len(site.ledger()) == 1


def states(site: Site) -> list[str]:
    return [row[0] for row in site.rows("SELECT state FROM parcels_announcement")]
