import pytest

from offload.protocol import (
    Answer,
    decode_answer,
    encode_answer,
    is_internal,
    merge,
    public_headers,
)

BODIES = [b"", b'{"a": 1}', "é€".encode(), b"\xff\xfe%PDF"]


@pytest.mark.parametrize("body", BODIES)
def test_stored_and_read_again(body):
    headers = (("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X", "é"))
    answer = Answer(201, headers, body)
    assert decode_answer(encode_answer(answer)) == answer
    assert decode_answer(encode_answer(answer, packed=True)) == answer


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b"{}", b'{"status": 1}', b'{"status":"x","headers":[],"body":""}']
)
def test_unreadable_is_a_value_error(text):
    with pytest.raises(ValueError):  # noqa: PT011 # json's and ours
        decode_answer(text)


@pytest.mark.parametrize("text", [b"", b"junk"])
def test_unpackable_is_a_value_error(text):
    with pytest.raises(ValueError, match="decompress"):
        decode_answer(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("X-Offload-Ticket", True),
        ("x_offload_ticket", True),
        ("X-Offload_Anything", True),
        ("X-Accel-Redirect", True),
        ("x-accel_buffering", True),
        ("X-Sendfile", True),
        ("X-Offloaded", False),
        ("X-Request-ID", False),
        ("Offload-Ticket", False),
    ],
)
def test_internal_headers(name, expected):
    assert is_internal(name) is expected


def test_public_headers_leave_out_hop_by_hop_and_internal():
    names = ["Connection", "Transfer-Encoding", "Date", "Content-Length", "X-Accel-Redirect"]
    assert public_headers([(name, "x") for name in [*names, "X-Kept"]]) == (("X-Kept", "x"),)


@pytest.mark.parametrize(
    ("late", "released", "expected"),
    [
        pytest.param([("X-Frame-Options", "DENY")], [], {"X-Frame-Options: DENY"}, id="stack's"),
        pytest.param([("Location", "/")], [], set(), id="late only"),
        pytest.param([("Refresh", "5"), ("Repr-Digest", "sha=:x:")], [], set(), id="reloads"),
        pytest.param([("ETag", "e"), ("content-encoding", "gzip")], [], set(), id="late's body"),
        pytest.param([], [("Location", "/new")], {"Location: /new"}, id="released's own location"),
        pytest.param([("A", "1")], [("a", "2")], {"a: 2"}, id="released wins"),
        pytest.param(
            [("Set-Cookie", "a=1")],
            [("Set-Cookie", "b=2")],
            {"Set-Cookie: a=1", "Set-Cookie: b=2"},
            id="all cookies",
        ),
        pytest.param(
            [("Vary", "Accept, Cookie")],
            [("vary", "accept, Origin")],
            {"Vary: accept, Cookie, Origin"},
            id="vary is joined",
        ),
        pytest.param([("Connection", "close")], [("X-Offload-A", "b")], set(), id="never passes"),
    ],
)
def test_merge(late, released, expected):
    merged = merge(Answer(400, tuple(released), b"body"), Answer(202, tuple(late), b"late"))
    assert (merged.status, merged.body) == (400, b"body")
    assert {f"{name}: {value}" for name, value in merged.headers} == expected


def test_merge_without_late_answer():
    assert merge(Answer(200, (("A", "b"),), b""), None) == Answer(200, (("A", "b"),), b"")
