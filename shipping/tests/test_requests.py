"""The request id, and the numbers of each request."""

from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, RequestFactory

from parcels import limits, metrics
from shipping.middleware import RequestMiddleware


def answered_id(client: Client, given: str | None) -> str:
    """Return the id of the answer to a request with the given one."""
    headers = {} if given is None else {"X-Request-ID": given}
    return client.get("/healthz", headers=headers)["X-Request-ID"]


@pytest.mark.parametrize("given", ["a", "0af7651916cd43dd8448eb211c80319c", "svc:1.2_x-y"])
def test_a_valid_id_comes_back(client: Client, given: str) -> None:
    assert answered_id(client, given) == given


@pytest.mark.parametrize("given", [None, "", "a b", "a\nb", "ä", "x" * 65, "<script>", '"'])
def test_what_could_break_a_log_line_is_replaced(client: Client, given: str | None) -> None:
    replaced = answered_id(client, given)
    assert replaced != given
    assert len(replaced) == 32


async def test_the_id_comes_back_from_the_asynchronous_stack(async_client: AsyncClient) -> None:
    response = await async_client.get("/healthz", headers={"X-Request-ID": "mine"})
    assert response["X-Request-ID"] == "mine"


@pytest.mark.parametrize(
    ("method", "site", "status"),
    [
        ("POST", "cross-site", 403),
        ("DELETE", "cross-site", 403),
        ("POST", "same-site", 403),  # another port, or a sister of our name
        ("GET", "cross-site", 200),
        ("GET", "same-site", 200),
        ("POST", "same-origin", 200),
        ("POST", "none", 200),
        ("POST", None, 200),
    ],
)
def test_a_page_of_another_origin_may_not_write(method: str, site: str | None, status: int) -> None:
    request = RequestFactory().generic(method, "/healthz")
    if site is not None:
        request.META["HTTP_SEC_FETCH_SITE"] = site
    answer: Any = RequestMiddleware(lambda _: HttpResponse())(request)
    assert answer.status_code == status


def test_a_request_is_counted_by_its_route(client: Client) -> None:
    counter = metrics.REQUESTS.labels("GET", "alive", 200)
    before = counter._value.get()
    client.get("/healthz")
    assert counter._value.get() == before + 1


def test_a_request_s_last_line_names_its_parcel(client: Client, caplog: Any) -> None:
    with caplog.at_level("INFO", logger="shipping.requests"):
        client.get("/api/v2/parcels/4711")
    said = [each for each in caplog.records if each.name == "shipping.requests"]
    assert [(each.status, each.parcel) for each in said] == [(401, "4711")]


def test_what_clients_make_up_makes_no_new_series(client: Client) -> None:
    client.get("/no/such/address/4711")
    client.generic("BREW", "/healthz")
    labels = {
        tuple(sample.labels.values()) for m in metrics.REQUESTS.collect() for sample in m.samples
    }
    assert ("GET", "unmatched", "404") in labels
    assert not any("4711" in label or "BREW" in label for row in labels for label in row)


def test_a_worker_is_busy_while_it_answers_and_not_afterwards(
    client: Client,
) -> None:
    serving: Any = metrics.WORKERS.labels("serving")
    before, during = serving._value.get(), []

    def answer(_: HttpRequest) -> HttpResponse:
        during.append(serving._value.get())
        return HttpResponse()

    RequestMiddleware(answer)(RequestFactory().get("/"))
    assert during == [before + 1]
    assert serving._value.get() == before


def test_a_failing_application_leaves_nobody_busy() -> None:
    serving: Any = metrics.WORKERS.labels("serving")
    before = serving._value.get()
    with pytest.raises(ZeroDivisionError):
        RequestMiddleware(lambda request: 1 / 0)(RequestFactory().get("/"))
    assert serving._value.get() == before


@pytest.mark.parametrize(
    "address", ["/admin/?x=" + "%2F" * 1300, "/operator/parcels?x=" + "%2F" * 1300,
                "/admin/" + "%E2%82%AC" * 400]
)  # fmt: skip
def test_an_address_too_long_to_be_redirected_is_refused(client: Client, address: str) -> None:
    """nginx has 4 KB for all headers of an answer; one that is over it looks like a dead app."""
    answer = client.get(address)
    assert answer.status_code == 414
    assert answer.json()["error"]["code"] == 414
    assert sum(len(f"{name}: {value}\r\n") for name, value in answer.items()) < 4_000


def test_the_longest_redirect_fits_nginx_buffer(client: Client) -> None:
    answer = client.get("/admin/?x=" + "a" * 2_000)
    assert answer.status_code == 302
    assert len(answer["Location"]) in range(2_000, limits.REDIRECT + 1)
    assert sum(len(f"{name}: {value}\r\n") for name, value in answer.items()) < 4_000


@pytest.mark.parametrize("host", ["a\tb", "elsewhere.example"])
def test_a_host_that_is_none_of_ours_is_refused_in_the_error_shape(client: Client, host: str):
    answer = client.get("/api/v2/parcels", headers={"host": host})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == 400


def test_a_browser_that_asks_for_an_icon_gets_none_and_asks_no_more(client: Client) -> None:
    """As on the admin's pages, which name none: a 404 would be in the log each time."""
    answer = client.get("/favicon.ico")
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer["Cache-Control"] == "max-age=86400"


@pytest.mark.parametrize("accept", ["", " , "])
def test_an_empty_accept_is_as_none(client: Client, accept: str) -> None:
    assert client.get("/api/v2/user", headers={"accept": accept}).status_code == 401


def test_a_session_s_cookie_alone_costs_no_query(client: Client) -> None:
    """The log line must not look its user up: the database may be away."""
    client.cookies["sessionid"] = "x" * 32
    assert client.get("/healthz").status_code == 200


async def test_nor_does_it_in_the_asynchronous_stack(async_client: AsyncClient) -> None:
    """There, a query in the event loop would be an error."""
    async_client.cookies["sessionid"] = "x" * 32
    assert (await async_client.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    "quoted",
    [
        r'sessionid="\000aaaaaaaaaaaa"',  # NUL, with which the query for the session is an error
        "sessionid=a\0",
        'a="' + "\\" * 999 + '"',  # 60,000 took Python before 3.11.10 seven seconds
    ],
)
def test_a_cookie_that_django_would_unquote_is_dropped(quoted: str) -> None:
    seen = []

    def answer(request: HttpRequest) -> HttpResponse:
        seen.append(request.COOKIES)
        return HttpResponse()

    cookies = f"{quoted}; csrftoken=x"
    RequestMiddleware(answer)(RequestFactory().get("/", headers={"cookie": cookies}))
    assert seen == [{"csrftoken": "x"}]
