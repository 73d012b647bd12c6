"""From a client's request to its label, over real processes, on both databases."""

import threading
import time
from collections.abc import Iterator

import pytest

from deploy.stores import PostgresServer
from deploy.tests.waiting import until
from parcels.tests.stacks import Site, running

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(180)]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    database = request.param
    if database == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgresql")
        database = server.create_database("flow")
    with running("asgi-hold", database) as site:
        yield site


def test_asynchronous_ends_as_ready_to_send(site: Site) -> None:
    answer = site.create(shipment=8, request_label_async=True)
    assert answer.json()["parcel"]["status"]["id"] == 1001
    parcel = site.wait_for_status(answer.json()["parcel"]["id"], 1000)
    assert parcel["tracking_number"]
    label = site.session.get(parcel["label"]["label_printer"], timeout=30)
    assert label.content.startswith(b"%PDF-")


def test_a_refusal_ends_as_1002_with_the_carrier_s_words(site: Site) -> None:
    answer = site.create(shipment=8, request_label_async=True, company_name="SIM:REFUSE")
    parcel = site.wait_for_status(answer.json()["parcel"]["id"], 1002)
    assert "PostNL service error: The address is invalid" in str(parcel["errors"])
    assert parcel["label"] == {}


def test_a_held_client_gets_its_label(site: Site) -> None:
    answer = site.create(shipment=20, request_label=True)
    assert answer.status_code == 200
    assert answer.json()["parcel"]["status"]["id"] == 1000


@pytest.mark.parametrize("trouble", ["RESET_AFTER", "RESET_BEFORE", "CORRUPT", "TRUNCATE", "ERROR"])
def test_a_lost_answer_is_found_again(site: Site, trouble: str) -> None:
    answer = site.create(shipment=40, request_label_async=True, company_name=f"SIM:{trouble}")
    id_ = answer.json()["parcel"]["id"]
    parcel = site.wait_for_status(id_, 1000, seconds=60)
    references = site.rows(f"SELECT reference FROM parcels_announcement WHERE parcel_id = {id_}")
    sold = [line for line in site.ledger() if line["reference"] == references[0][0]]
    assert [line["tracking_number"] for line in sold] == [parcel["tracking_number"]]


def test_a_carrier_that_can_t_be_asked_is_left_to_a_person(site: Site) -> None:
    answer = site.create(shipment=30, request_label_async=True, company_name="SIM:RESET_AFTER")
    id_ = answer.json()["parcel"]["id"]
    state = f"SELECT state FROM parcels_announcement WHERE parcel_id = {id_}"
    until(lambda: site.rows(state)[0][0] == "needs_review", "needs_review", 30)
    assert site.parcel(id_)["status"]["id"] == 1001


def test_a_client_is_answered_although_redis_is_lost_while_it_is_held(site: Site) -> None:
    answers: list[tuple[float, int]] = []

    def ask() -> None:
        answer = site.create(shipment=10, request_label=True)
        answers.append((time.time(), answer.json()["parcel"]["status"]["id"]))

    client = threading.Thread(target=ask)
    client.start()
    count = "SELECT count(*) FROM parcels_announcement WHERE carrier = 'tortoise'"
    until(lambda: site.rows(f"{count} AND sent_at IS NOT NULL")[0][0] > 0, "the call", 20)
    site.stack.kill("redis")
    until(lambda: site.rows(f"{count} AND state = 'announced'")[0][0] > 0, "its outcome", 40)
    outcome_at = time.time()
    client.join(60)
    site.stack.start("redis")
    assert [status for _, status in answers] == [1000]
    # Two seconds between the hub's looks at the row; the rest is for a busy machine.
    assert answers[0][0] - outcome_at < 4
