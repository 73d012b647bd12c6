"""The internal side needs no routes, no allowed host and no exemption from the redirect to TLS."""

import time

import pytest
from django.test import Client, override_settings

from offload import questions
from offload.keys import ANSWERS_PATH
from offload.tests import outcomes, releases
from offload.tests.processes import SECRET

PROJECT = {
    "ROOT_URLCONF": "offload.tests.no_urls",
    "ALLOWED_HOSTS": ["shop.example"],
    "SECURE_SSL_REDIRECT": True,
    "MIDDLEWARE": [
        "offload.middleware.OffloadMiddleware",
        "django.middleware.security.SecurityMiddleware",
        "django.middleware.common.CommonMiddleware",
    ],
}


@pytest.fixture(autouse=True)
def settled(offload_settings):
    offload_settings(BACKEND="accel")
    outcomes.known.clear()
    with override_settings(**PROJECT):
        yield


def test_the_hub_is_answered_whatever_the_project_s_hosts(hold_id):
    outcomes.known[hold_id] = 7
    body = questions.encode_question([hold_id], final_only=True)
    headers = {"Authorization": questions.sign_question(SECRET, body, now=time.time())}
    answer = Client(SERVER_NAME="127.0.0.1").post(
        ANSWERS_PATH, body, content_type="application/json", headers=headers
    )
    assert answer.status_code == 200
    assert list(questions.decode_answers(answer.content)) == [hold_id]


@pytest.mark.integration
def test_so_is_the_front(hold_id):
    outcomes.known[hold_id] = 7
    answer = Client(SERVER_NAME="app").get(f"/_offload/late/{releases.ticket(hold_id)}")
    assert (answer.status_code, answer.json()) == (200, {"final": 7})


@pytest.mark.parametrize("place", ["", "answers", "hold/x", "nonsense", "late", "answers/"])
def test_the_rest_is_not_there(place):
    assert Client(SERVER_NAME="127.0.0.1").get(f"/_offload/{place}").status_code == 404


def test_all_other_addresses_are_the_project_s():
    assert Client(SERVER_NAME="shop.example").get("/x").status_code == 301
    assert Client(SERVER_NAME="127.0.0.1").get("/x").status_code == 400
