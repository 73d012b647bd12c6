"""A message for the user, added where the outcome is made: in a worker that has no session."""

import pytest
from django.contrib.messages import SUCCESS, get_messages
from django.contrib.messages.middleware import MessageMiddleware
from django.http import HttpResponse
from django.test import RequestFactory

import offload
from offload.responses import to_response

STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"


@pytest.fixture
def released(offload_settings, stored):
    offload_settings({"MESSAGE_STORAGE": STORAGE})
    return stored


def test_the_next_page_shows_it(released, hold_id):
    response = HttpResponse(status=302, headers={"Location": "/"})
    offload.add_message(response, SUCCESS, "Label bought")
    offload.add_message(response, SUCCESS, "And paid")
    offload.release(hold_id, response)
    got = to_response(released[hold_id])
    request = RequestFactory().get("/")
    request.COOKIES["messages"] = got.cookies["messages"].value
    MessageMiddleware(lambda _: HttpResponse()).process_request(request)
    assert [str(message) for message in get_messages(request)] == ["Label bought", "And paid"]
