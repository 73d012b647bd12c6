import pytest

from offload import protocol, questions
from offload.protocol import Answer

SECRET = "s" * 40
HOLD_ID = "0123456789abcdef" * 2
NOW = 1_800_000_000.0


def ticket(account="shop", deadline=NOW + 10):
    return protocol.make_ticket(SECRET, HOLD_ID, account=account, deadline=deadline)


def test_ticket_says_what_it_was_made_for():
    read = protocol.read_ticket(SECRET, ticket(deadline=NOW + 1.234), now=NOW)
    assert (read.hold_id, read.deadline) == (HOLD_ID, NOW + 1.234)
    assert len(ticket()) == 108
    assert "shop" not in ticket()


@pytest.mark.parametrize("part", [0.0004, 0.0006, 0.9999])
def test_a_ticket_cuts_no_wait_short(part):
    read = protocol.read_ticket(SECRET, ticket(deadline=NOW + 1 + part), now=NOW)
    assert NOW + 1 + part <= read.deadline < NOW + 1 + part + 0.002


def test_two_tickets_of_one_hold_are_two():
    nonces = {protocol.read_ticket(SECRET, ticket(), now=NOW).nonce for _ in range(10)}
    assert len(nonces) == 10


def test_account_is_told_apart_but_not_told():
    def account(name):
        return protocol.read_ticket(SECRET, ticket(account=name), now=NOW).account

    assert account("one") == account("one") != account("two")
    assert account("") == ""


@pytest.mark.parametrize(
    ("secret", "change", "now", "reason"),
    [
        pytest.param("t" * 40, lambda t: t, NOW, "forged", id="another secret"),
        pytest.param(SECRET, lambda t: t[:-1], NOW, "not a ticket", id="cut"),
        pytest.param(SECRET, lambda t: t + "A", NOW, "not a ticket", id="longer"),
        pytest.param(SECRET, lambda t: t[:-4] + "====", NOW, "not a ticket", id="padding"),
        pytest.param(SECRET, lambda t: "é" * 108, NOW, "not a ticket", id="not ASCII"),
        pytest.param(SECRET, lambda t: t + "\n", NOW, "not a ticket", id="line end"),
        pytest.param(SECRET, lambda t: "", NOW, "not a ticket", id="empty"),
        pytest.param(SECRET, lambda t: t, NOW + 41, "expired", id="past deadline and grace"),
    ],
)
def test_refused(secret, change, now, reason):
    with pytest.raises(protocol.TicketRefused, match=reason):
        protocol.read_ticket(secret, change(ticket()), now=now)


def test_tickets_of_a_former_secret_are_good_while_it_is_a_fallback():
    new, former = "n" * 40, ("f" * 40, SECRET)
    assert protocol.read_ticket(new, ticket(), now=NOW, fallbacks=former).hold_id == HOLD_ID
    with pytest.raises(protocol.TicketRefused, match="forged"):
        protocol.read_ticket(new, ticket(), now=NOW, fallbacks=former[:1])


def test_questions_of_a_former_secret_are_good_while_it_is_a_fallback():
    authorization = questions.sign_question(SECRET, b"q", now=NOW)

    def is_signed(*fallbacks):
        return questions.question_is_signed(
            "n" * 40, authorization, b"q", now=NOW, fallbacks=fallbacks
        )

    assert is_signed("f" * 40, SECRET)
    assert not is_signed("f" * 40)


def test_every_changed_character_is_noticed():
    text = ticket()
    for place in range(len(text)):
        other = "A" if text[place] != "A" else "B"
        with pytest.raises(protocol.TicketRefused):
            protocol.read_ticket(SECRET, text[:place] + other + text[place + 1 :], now=NOW)


def test_ticket_lives_on_for_its_grace():
    now = NOW + 10 + protocol.TICKET_GRACE
    assert protocol.read_ticket(SECRET, ticket(), now=now).hold_id == HOLD_ID


@pytest.mark.parametrize("bad", ["", "x", HOLD_ID.upper().replace("0", "G"), HOLD_ID + "0"])
def test_hold_id_that_is_none(bad):
    with pytest.raises(ValueError, match="hold id"):
        protocol.make_ticket(SECRET, bad, account="", deadline=NOW)


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
