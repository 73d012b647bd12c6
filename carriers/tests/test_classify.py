"""The tables that say what an event on the wire means for a purchase."""

from datetime import UTC, datetime

import pytest

from carriers import errors
from carriers.classify import Phase, Promises, answer, seconds, trouble
from carriers.outcomes import NotSent, Refused, Throttled, Unknown

NOTHING = Promises()
PROMISES = Promises(throttle_promises_nothing=True)
SOAP = Promises(refusal_statuses=frozenset({500}))
BEFORE, BUYING, AFTER, VOIDING = Phase
# How the adapter read the body: in the carrier's documented shape, or not.
REFUSAL, UNREADABLE = Refused("X", "no"), None

ANSWERS = [
    (200, UNREADABLE, BUYING, NOTHING, Unknown, "a cut 200 may have been a label"),
    (200, REFUSAL, BUYING, NOTHING, Unknown, "a refusal under 200 is in nobody's documentation"),
    (204, UNREADABLE, BUYING, NOTHING, Unknown, "success without a label"),
    (302, UNREADABLE, BUYING, NOTHING, Unknown, "not followed, not understood"),
    (400, REFUSAL, BUYING, NOTHING, Refused, "documented"),
    (400, UNREADABLE, BUYING, NOTHING, Unknown, "a 4xx of something in between promises nothing"),
    (401, UNREADABLE, BUYING, NOTHING, Refused, "no one acts for a stranger"),
    (401, UNREADABLE, VOIDING, NOTHING, Refused, "likewise"),
    (403, REFUSAL, BUYING, NOTHING, Refused, "likewise"),
    (403, UNREADABLE, BUYING, NOTHING, Unknown, "a firewall that filters answers says this, too"),
    (403, UNREADABLE, VOIDING, NOTHING, Unknown, "likewise"),
    (403, UNREADABLE, BEFORE, NOTHING, NotSent, "a login bought nothing"),
    (407, REFUSAL, BUYING, NOTHING, Unknown, "of a proxy"),
    (499, REFUSAL, BUYING, NOTHING, Unknown, "a gateway's own time-out"),
    (408, REFUSAL, BUYING, NOTHING, Unknown, "it timed out: how far did it get?"),
    (409, REFUSAL, BUYING, NOTHING, Unknown, "in any words: it may have sold this one before"),
    (409, REFUSAL, VOIDING, NOTHING, Refused, "on its way already"),
    (422, REFUSAL, BUYING, NOTHING, Refused, "the usual refusal"),
    (429, REFUSAL, BUYING, PROMISES, Throttled, "before the body says anything"),
    (429, UNREADABLE, BUYING, NOTHING, Throttled, "throttled; whether it may be repeated: below"),
    (500, REFUSAL, BUYING, NOTHING, Unknown, "a 5xx is no promise, however it is worded"),
    (500, REFUSAL, BUYING, SOAP, Refused, "unless the protocol answers refusals with 500"),
    (500, UNREADABLE, BUYING, SOAP, Unknown, "soap:Server"),
    (503, UNREADABLE, BUYING, NOTHING, Unknown, "may come from behind the booking"),
    (500, UNREADABLE, BEFORE, NOTHING, NotSent, "a login bought nothing"),
    (200, UNREADABLE, BEFORE, NOTHING, NotSent, "likewise"),
    (401, UNREADABLE, BEFORE, NOTHING, Refused, "wrong password"),
    (429, UNREADABLE, BEFORE, NOTHING, Throttled, "a throttled login"),
    (404, REFUSAL, AFTER, NOTHING, Unknown, "the order stands; its label isn't there yet"),
    (401, UNREADABLE, AFTER, NOTHING, Unknown, "a refusal now takes no purchase back"),
    (429, UNREADABLE, AFTER, PROMISES, Unknown, "the promise is about the purchase, not this"),
]


@pytest.mark.parametrize(("status", "body", "phase", "promises", "outcome", "remark"), ANSWERS)
def test_an_answer_is_classified(status, body, phase, promises, outcome, remark):
    assert type(answer(status, None, body, phase, promises)) is outcome, remark


TROUBLES = [
    (errors.CarrierUnreachable, False, NotSent, "DNS, refused, connect time-out"),
    (errors.CarrierTlsError, False, NotSent, "no handshake, no request"),
    (errors.SendForbidden, False, NotSent, "the lease had run out"),
    (errors.CarrierTimeout, False, NotSent, "a login that hung bought nothing"),
    (errors.CarrierTimeout, True, Unknown, "it may be booking right now"),
    (errors.CarrierReset, True, Unknown, "before or after booking? nobody knows"),
    (errors.CarrierAnswerUnreadable, True, Unknown, "half a label"),
    (errors.CarrierUnreachable, True, Unknown, "the second step failed, the first had bought"),
]


@pytest.mark.parametrize(("error", "act_sent", "outcome", "remark"), TROUBLES)
def test_trouble_is_classified_by_what_had_left(error, act_sent, outcome, remark):
    judged = trouble(error(), act_sent=act_sent)
    assert type(judged) is outcome, remark
    assert judged.reason == error.reason


def test_outcomes_carry_what_the_answer_said():
    refusal = Refused("ADDRESS_INVALID", "no such street")
    assert answer(422, None, refusal, BUYING, NOTHING) == refusal
    duplicate = Refused("DUPLICATE_REFERENCE", "known")
    assert answer(422, None, duplicate, BUYING, NOTHING) == Unknown("conflict", "HTTP 422")
    assert answer(401, None, None, BUYING, NOTHING) == Refused("credentials", "HTTP 401", True)
    assert answer(429, "7", None, BUYING, PROMISES) == Throttled(7.0, nothing_made=True)
    assert answer(429, None, None, BUYING, NOTHING) == Throttled(None, nothing_made=False)
    assert answer(429, None, None, BEFORE, NOTHING) == Throttled(None, nothing_made=True)
    assert answer(429, "7", None, AFTER, PROMISES) == Unknown("throttled", "HTTP 429", 7.0)
    assert answer(502, None, None, BUYING, NOTHING) == Unknown("server_error", "HTTP 502")
    assert answer(408, None, None, BUYING, NOTHING) == Unknown("timeout", "HTTP 408")


NOW = datetime(2026, 11, 21, 9, 15, 0, tzinfo=UTC)
RETRY_AFTER = [
    ("7", 7.0, "seconds"),
    (" 7 ", 7.0, "with white space"),
    ("0", 0.0, "at once"),
    ("Sat, 21 Nov 2026 09:15:30 GMT", 30.0, "a date"),
    ("Sat, 21 Nov 2026 09:00:00 GMT", 0.0, "a date gone by"),
    ("9" * 5000, 3600.0, "int() refuses this many digits"),
    ("-5", None, "nonsense"),
    ("soon", None, "nonsense"),
    ("²", None, "isdigit() alone takes this for a digit"),
    ("", None, "empty"),
    (None, None, "absent"),
]


@pytest.mark.parametrize(("header", "expected", "remark"), RETRY_AFTER)
def test_retry_after_is_read_with_care(header, expected, remark):
    assert seconds(header, now=NOW) == expected, remark


def test_an_error_says_what_it_is():
    assert str(errors.CarrierTimeout()) == "The carrier did not answer in time"
