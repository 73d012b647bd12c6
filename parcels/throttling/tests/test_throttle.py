"""429 in the error shape; whose limits hold."""

from typing import Any

import pytest

from parcels.models import Account, ApiKey
from parcels.services import holds
from parcels.tests.factories import AccountFactory, ParcelFactory
from parcels.tests.requests import Shop, body
from parcels.throttling import counting
from parcels.throttling.limits import Limit, parse_limits
from parcels.views import request as views


class Counting:
    """Windows that never slide."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.limits: tuple[Limit, ...] = ()

    def wait(self, name: str, limits: tuple[Limit, ...], *, charge: int = 0) -> float:
        self.limits = limits
        self.counts[name] = self.counts.get(name, 0) + (charge or 1)
        return 1.2 if self.counts[name] > min(limit.requests for limit in limits) else 0


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Counting:
    fake = Counting()
    monkeypatch.setattr(views, "windows", lambda: fake)
    return fake


@pytest.fixture
def counts(windows: Counting) -> dict[str, int]:
    return windows.counts


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("none", ()),
        ("1000/min", (Limit(1000, 60),)),
        ("100/min, 15/s", (Limit(100, 60), Limit(15, 1))),
        ("5/hour", (Limit(5, 3600),)),
    ],
)
def test_limits_are_read(text: str, limits: tuple[Limit, ...]) -> None:
    assert parse_limits(text) == limits


@pytest.mark.parametrize("text", ["", "0/s", "5", "5/day", "-1/s", "1.5/s", "5/s,", "many"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="limit"):
        parse_limits(text)


@pytest.mark.django_db
def test_too_many_requests(counts: dict[str, int]) -> None:
    shop = Shop(AccountFactory.create(read_limit="2/min"))
    answers = [shop.get("parcels/statuses") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2]["Retry-After"] == "2"
    assert answers[2].json()["error"]["code"] == 429
    assert shop.post("parcels", {}).status_code == 400  # writing has its own


@pytest.mark.django_db
def test_a_batch_counts_by_its_parcels(counts: dict[str, int]) -> None:
    account = AccountFactory.create(write_limit="22/min")
    shop = Shop(account)
    batch = {"parcels": [body(shipment={"id": 8})] * 5}
    colli = {"parcels": [body(shipment={"id": 8}, quantity=14)]}
    two = {"parcels": batch["parcels"][:2]}
    assert shop.post("parcels", two).status_code == 200
    assert counts == {f"{account.pk}:write": 2}
    assert shop.post("parcels", batch).status_code == 200
    assert shop.post("parcels", colli).status_code == 200
    assert shop.post("parcels", batch).status_code == 200  # there is room for one: it passes whole
    assert counts == {f"{account.pk}:write": 26}
    assert shop.post("parcels", {"parcel": body()}).status_code == 429


@pytest.mark.django_db
def test_what_is_refused_of_a_batch_counts_as_well(counts: dict[str, int]) -> None:
    """It is in the answer, which is stored: two megabytes by each request filled Redis."""
    account = AccountFactory.create(write_limit="100/min")
    batch = {"parcels": [body(), *[body(name="", note="x" * 100)] * 31]}
    answer = Shop(account).post("parcels?errors=verbose", batch)
    assert len(answer.json()["failed_parcels"]) == 31
    assert counts == {f"{account.pk}:write": 32}


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["labels/label_printer", "customs_declaration/normal_printer"])
def test_a_document_counts_by_its_parcels(path: str, counts: dict[str, int]) -> None:
    """A sheet of a hundred labels takes a thousand times the processor of a parcel."""
    account = AccountFactory.create(read_limit="100/min")
    Shop(account).get(f"{path}?ids=1,2,3")
    assert counts == {f"{account.pk}:read": 3}
    Shop(account).get(f"{path}/1")
    assert counts == {f"{account.pk}:read": 4}


@pytest.mark.django_db
def test_a_wait_counts_by_the_size_of_its_answer(
    counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept for five minutes, whether its client is still there or not."""
    monkeypatch.setattr(holds, "retry_after", lambda _: None)  # asks the breakers
    account = AccountFactory.create(read_limit="100/min")
    items = [{"description": "x" * 20_000}]
    parcel = ParcelFactory.create(account=account, status=1001, parcel_items=items)
    Shop(account).get(f"parcels/{parcel.pk}?wait=0")
    assert counts == {f"{account.pk}:read": 1}
    Shop(account).get(f"parcels/{parcel.pk}?wait=1")
    assert counts == {f"{account.pk}:read": 4}


@pytest.mark.django_db
def test_a_repeated_key_counts_by_the_size_of_its_request(counts: dict[str, int]) -> None:
    """Its answer is kept as the first one's: of a batch two megabytes."""
    account = AccountFactory.create(write_limit="100/min")
    shop = Shop(account)
    small, large = {"parcel": body()}, {"parcels": [body(unknown="x" * 50_000)] * 3}
    for sent, counted in ((small, [1, 2]), (large, [5, 8])):
        for so_far in counted:
            shop.post("parcels", sent, Idempotency_Key=f"{counted}")
            assert counts == {f"{account.pk}:write": so_far}


@pytest.mark.django_db
def test_all_keys_of_an_account_count_together(counts: dict[str, int]) -> None:
    account = AccountFactory.create(read_limit="2/min")
    one, other = Shop(account), Shop(account)
    assert ApiKey.objects.filter(account=account).count() == 2
    assert [one.get("parcels").status_code, other.get("parcels").status_code] == [200, 200]
    assert [one.get("parcels").status_code, other.get("parcels").status_code] == [429, 429]
    assert Shop(AccountFactory.create(read_limit="2/min")).get("parcels").status_code == 200


@pytest.mark.django_db
def test_whoever_is_not_let_in_is_not_counted(counts: dict[str, int]) -> None:
    shop = Shop(AccountFactory.create())
    shop.authorization = "Basic bm86bm8="
    assert shop.get("parcels").status_code == 401
    assert not counts


@pytest.mark.parametrize(
    ("own", "requests"), [("none", []), ("", [1000]), ("7/s", [7]), ("nonsense", [1000])]
)
def test_an_accounts_own_limit_wins(
    own: str, requests: list[int], windows: Counting, settings: Any
) -> None:
    settings.THROTTLE_READ = "1000/min"
    views.count(Account(read_limit=own), "read")
    assert [limit.requests for limit in windows.limits] == requests


def test_windows_are_made_once_per_process() -> None:
    assert counting.windows() is counting.windows()
