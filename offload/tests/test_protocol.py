import pytest

from offload import protocol, questions
from offload.protocol import Answer

SECRET = "s" * 40
HOLD_ID = "0123456789abcdef" * 2
NOW = 1_800_000_000.0


def test_questions_of_a_former_secret_are_good_while_it_is_a_fallback():
    authorization = questions.sign_question(SECRET, b"q", now=NOW)

    def is_signed(*fallbacks):
        return questions.question_is_signed(
            "n" * 40, authorization, b"q", now=NOW, fallbacks=fallbacks
        )

    assert is_signed("f" * 40, SECRET)
    assert not is_signed("f" * 40)


@pytest.mark.parametrize(
    ("secret", "body", "later", "change", "expected"),
    [
        pytest.param(SECRET, b"q", 0, lambda a: a, True, id="right"),
        pytest.param(SECRET, b"q", 29, lambda a: a, True, id="clocks differ"),
        pytest.param(SECRET, b"q", 31, lambda a: a, False, id="old"),
        pytest.param(SECRET, b"q", -31, lambda a: a, False, id="from the future"),
        pytest.param("t" * 40, b"q", 0, lambda a: a, False, id="another secret"),
        pytest.param(SECRET, b"other", 0, lambda a: a, False, id="another body"),
        pytest.param(SECRET, b"q", 0, lambda a: a[:-1] + "g", False, id="not hex"),
        pytest.param(SECRET, b"q", 0, lambda a: a.replace("1", "2", 1), False, id="another time"),
        pytest.param(SECRET, b"q", 0, lambda a: "Basic " + a[8:], False, id="another scheme"),
        pytest.param(SECRET, b"q", 0, lambda a: "", False, id="none"),
    ],
)
def test_signed_question(secret, body, later, change, expected):
    authorization = change(questions.sign_question(SECRET, b"q", now=NOW))
    assert questions.question_is_signed(secret, authorization, body, now=NOW + later) is expected


def test_question_there_and_back():
    for final_only in (True, False):
        body = questions.encode_question([HOLD_ID], final_only=final_only)
        assert questions.decode_question(body) == ([HOLD_ID], final_only)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"hold_ids": 1}', b'{"hold_ids": ["x"]}'])
def test_question_that_is_none(body):
    with pytest.raises(ValueError):  # noqa: PT011 # json's and ours
        questions.decode_question(body)


def test_answers_there_and_back():
    answers = {HOLD_ID: Answer(400, (("A", "b"),), b"\xff\x00")}
    assert questions.decode_answers(questions.encode_answers(answers)) == answers


@pytest.mark.parametrize("status", [204, 304])
async def test_no_body_is_sent_where_none_may_be(status):
    """A server that is given one breaks the connection, which its client would use again."""
    sent = []

    async def send(message):
        sent.append(message)

    await protocol.send_answer(send, Answer(status, (), b"{}"))
    assert [message.get("body") for message in sent] == [None, b""]


async def test_headers_are_sent_without_blanks_around_them():
    """h11 refuses those, and uvicorn hangs up; what a Django response holds is not stripped."""
    sent = []

    async def send(message):
        sent.append(message)

    await protocol.send_answer(
        send, Answer(204, (("X-Said", " it \t"), ("X-Name", "Zo\xeb\xa0")), b"")
    )
    assert sent[0]["headers"] == [(b"x-said", b"it"), (b"x-name", b"Zo\xeb\xa0")]
