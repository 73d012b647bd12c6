"""Tickets: what they say, and that nobody else can make or change one."""

import pytest

from offload.tickets import TICKET_GRACE, TicketRefused, make_ticket, read_ticket

SECRET = "s" * 40
HOLD_ID = "0123456789abcdef" * 2
NOW = 1_800_000_000.0


def ticket(account="shop", deadline=NOW + 10):
    return make_ticket(SECRET, HOLD_ID, account=account, deadline=deadline)


def test_ticket_says_what_it_was_made_for():
    read = read_ticket(SECRET, ticket(deadline=NOW + 1.234), now=NOW)
    assert (read.hold_id, read.deadline) == (HOLD_ID, NOW + 1.234)
    assert len(ticket()) == 108
    assert "shop" not in ticket()


@pytest.mark.parametrize("part", [0.0004, 0.0006, 0.9999])
def test_a_ticket_cuts_no_wait_short(part):
    read = read_ticket(SECRET, ticket(deadline=NOW + 1 + part), now=NOW)
    assert NOW + 1 + part <= read.deadline < NOW + 1 + part + 0.002


def test_two_tickets_of_one_hold_are_two():
    nonces = {read_ticket(SECRET, ticket(), now=NOW).nonce for _ in range(10)}
    assert len(nonces) == 10


def test_account_is_told_apart_but_not_told():
    def account(name):
        return read_ticket(SECRET, ticket(account=name), now=NOW).account

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
        pytest.param(SECRET, lambda t: t, NOW + 191, "expired", id="past deadline and grace"),
    ],
)
def test_refused(secret, change, now, reason):
    with pytest.raises(TicketRefused, match=reason):
        read_ticket(secret, change(ticket()), now=now)


def test_tickets_of_a_former_secret_are_good_while_it_is_a_fallback():
    new, former = "n" * 40, ("f" * 40, SECRET)
    assert read_ticket(new, ticket(), now=NOW, fallbacks=former).hold_id == HOLD_ID
    with pytest.raises(TicketRefused, match="forged"):
        read_ticket(new, ticket(), now=NOW, fallbacks=former[:1])


def test_every_changed_character_is_noticed():
    text = ticket()
    for place in range(len(text)):
        other = "A" if text[place] != "A" else "B"
        with pytest.raises(TicketRefused):
            read_ticket(SECRET, text[:place] + other + text[place + 1 :], now=NOW)


def test_ticket_lives_on_for_its_grace():
    now = NOW + 10 + TICKET_GRACE
    assert read_ticket(SECRET, ticket(), now=now).hold_id == HOLD_ID


@pytest.mark.parametrize("bad", ["", "x", HOLD_ID.upper().replace("0", "G"), HOLD_ID + "0"])
def test_hold_id_that_is_none(bad):
    with pytest.raises(ValueError, match="hold id"):
        make_ticket(SECRET, bad, account="", deadline=NOW)
