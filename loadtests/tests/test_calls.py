"""The bytes that are sent, and what counts as a good answer."""

import base64
import json

import pytest

from loadtests.calls import JUDGES, make, request
from loadtests.metrics import Sample
from loadtests.wire import Answer


def answer(status, body=b"{}"):
    return Answer(status, body, 0.0)


def head_of(sent):
    head, _, body = sent.partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), body


def test_a_request_with_a_body_is_a_post_with_its_length():
    head, body = head_of(request("/x", b"{}", "shop.test", login="public:secret"))
    known = base64.b64encode(b"public:secret").decode()
    assert head == [
        "POST /x HTTP/1.1",
        "Host: shop.test",
        f"Authorization: Basic {known}",
        "Content-Type: application/json",
        "Content-Length: 2",
    ]
    assert body == b"{}"


def test_a_request_without_a_body_is_a_get():
    head, body = head_of(request("/x", b"", "shop.test"))
    assert head == ["GET /x HTTP/1.1", "Host: shop.test"]
    assert body == b""


def test_only_the_api_is_told_who_asks():
    assert b"Authorization" in make("read", host="x", login="a:b").request
    assert b"Authorization" not in make("health", host="x", login="a:b").request
    with pytest.raises(ValueError, match="no call of kind 'tea'"):
        make("tea", host="x", login="a:b")


def test_a_batch_asks_for_a_hundred_labels_and_a_wait_for_one_parcel_s():
    _, body = head_of(make("batch", host="x", login="a:b").request)
    assert [one["request_label_async"] for one in json.loads(body)["parcels"]] == [True] * 100
    head, _ = head_of(make("wait", host="x", login="a:b", parcel=7).request)
    assert head[0] == "GET /api/v2/parcels/7?wait=10 HTTP/1.1"


@pytest.mark.parametrize(
    ("status", "said"), [(200, "ok"), (201, "ok"), (202, "http 202"), (500, "http 500")]
)
def test_a_success_is_200_or_201(status, said):
    assert JUDGES["success"](answer(status)) == said


@pytest.mark.parametrize(
    ("label", "said"), [({"label_printer": "x"}, "ok"), (None, "no label (1)")]
)
def test_a_label_is_good_only_when_it_is_there(label, said):
    parcel = {"parcel": {"label": label, "status": {"id": 1}}}
    assert JUDGES["label"](answer(200, json.dumps(parcel).encode())) == said


def test_a_label_in_an_answer_of_another_shape_is_unreadable():
    assert JUDGES["label"](answer(200, b"<html>")) == "unreadable answer"
    assert JUDGES["label"](answer(202)) == "http 202"


def test_the_hub_says_which_of_its_processes_answered():
    said = JUDGES["process"](answer(200, b"ok, process 4711\n"))
    assert said == "ok, process 4711"
    assert Sample("hub", 0, 0, 0, 1, said).ok
    draining = JUDGES["process"](answer(503, b"draining\n"))
    assert not Sample("hub", 0, 0, 0, 1, draining).ok
