"""Guessing the admin's password is stopped, and nobody can stop all operators."""

import unicodedata
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from parcels.throttling.limits import Limit
from shipping import login

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse"
PROXY = {"REMOTE_ADDR": "10.0.0.1"}


class Counting:
    """Windows that never slide."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def wait(self, name: str, limits: tuple[Limit, ...]) -> float:
        if self.counts.get(name, 0) >= limits[0].requests:
            return 30.0
        self.counts[name] = self.counts.get(name, 0) + 1
        return 0.0

    def give_back(self, name: str, limits: tuple[Limit, ...]) -> None:
        self.counts[name] -= 1


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Counting:
    # A hundred guesses by the real hasher would take a minute.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.TRUSTED_PROXIES = ["10.0.0.0/8"]
    User.objects.create_superuser("root", password=PASSWORD)
    fake = Counting()
    monkeypatch.setattr(login, "windows", lambda: fake)
    return fake


def attempt(client: Client, address: str, password: str = "guess", name: str = "root") -> Any:
    given = {"username": name, "password": password}
    return client.post("/admin/login/", given, HTTP_X_FORWARDED_FOR=address, **PROXY)  # type: ignore[arg-type] # WSGI's names


def guess(address: str, times: int, name: str = "root") -> int:
    return [attempt(Client(), address, name=name).status_code for _ in range(times)][-1]


def test_guessing_from_one_address_is_stopped_there_alone() -> None:
    assert guess("192.0.2.7", 10) == 200
    stopped = attempt(Client(), "192.0.2.7", PASSWORD)
    assert (stopped.status_code, stopped["Retry-After"]) == (429, "31")
    assert attempt(Client(), "192.0.2.8", PASSWORD).status_code == 302


def test_an_address_that_is_stopped_takes_nothing_from_the_name() -> None:
    guess("192.0.2.7", 150)
    assert attempt(Client(), "192.0.2.8", PASSWORD).status_code == 302


def test_who_gets_in_counts_nowhere(counting: Counting) -> None:
    for _ in range(20):
        assert attempt(Client(), "192.0.2.7", PASSWORD).status_code == 302
    assert set(counting.counts.values()) == {0}


def test_a_name_is_limited_over_many_addresses(counting: Counting) -> None:
    for number in range(100):
        guess(f"192.0.2.{number}", 1)
    assert guess("198.51.100.1", 1) == 429
    assert attempt(Client(), "198.51.100.2", PASSWORD).status_code == 429
    assert not any("root" in name for name in counting.counts)


@pytest.mark.parametrize("written", [" root", "root ", "\uff52oot"])
def test_a_name_is_one_however_it_is_written(written: str, counting: Counting) -> None:
    """The form strips and normalises it: each way to write it would be a hundred more tries."""
    guess("192.0.2.7", 1)
    guess("192.0.2.7", 1, name=written)
    assert sorted(counting.counts.values()) == [2, 2]


def test_a_name_that_is_none_is_not_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes the square of its length: of two megabytes, a quarter of an hour."""
    normalize, lengths = unicodedata.normalize, set[int]()

    def counting(form: Any, text: str) -> str:
        lengths.add(len(text))
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counting)
    assert attempt(Client(), "192.0.2.7", name="\u0301\u0316" * 100).status_code == 200
    assert attempt(Client(), "192.0.2.7", name="root").status_code == 200
    assert lengths == {4}


def test_nobody_locks_out_a_browser_that_has_been_in() -> None:
    office = Client()
    attempt(office, "192.0.2.7", PASSWORD)
    for number in range(100):
        guess(f"198.51.100.{number}", 1)
    guess("192.0.2.7", 11, name="somebody")  # from the same address, too
    office.cookies.pop("sessionid")
    assert attempt(office, "192.0.2.7", PASSWORD).status_code == 302
    assert attempt(office, "203.0.113.9", PASSWORD).status_code == 302


def test_a_known_browser_may_not_guess_either() -> None:
    office = Client()
    attempt(office, "192.0.2.7", PASSWORD)
    answers = [attempt(office, "192.0.2.7").status_code for _ in range(11)]
    assert answers == [200] * 10 + [429]


def test_it_is_known_for_its_own_name_and_by_our_word_alone() -> None:
    office = Client()
    attempt(office, "192.0.2.7", PASSWORD)
    cookie = office.cookies[login.COOKIE]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (
        True,
        "Lax",
        "/admin/login/",
    )
    guess("192.0.2.7", 10)
    assert attempt(office, "192.0.2.7", name="somebody").status_code == 429
    office.cookies[login.COOKIE] = cookie.value[:-1] + ("a" if cookie.value[-1] != "a" else "b")
    assert attempt(office, "192.0.2.7", PASSWORD).status_code == 429


def test_looking_at_the_login_page_counts_nothing(counting: Counting) -> None:
    assert Client().get("/admin/login/").status_code == 200
    assert not counting.counts
