"""What every adapter has to keep, whatever its carrier's shape."""

import pytest
import requests as requests_library
import responses
from hypothesis import given
from hypothesis import strategies as st

from carriers.messages import Purchase
from carriers.outcomes import (
    Absent,
    Announced,
    Answered,
    Found,
    NotSent,
    Refused,
    Throttled,
    Unknown,
    Voided,
)
from carriers.registry import CARRIERS
from carriers.tests.bodies import drive, response
from carriers.tests.transport_cases import CONSIGNMENT
from carriers.transport import perform

EACH = pytest.mark.parametrize("adapter", CARRIERS.values(), ids=lambda adapter: adapter.code)
OUTCOMES = Announced | Refused | Throttled | NotSent | Unknown
PURCHASE = Purchase("ref-1", "S1", "T1")

ANSWERS = st.builds(
    response,
    st.sampled_from([200, 201, 204, 302, 400, 401, 404, 408, 409, 422, 429, 500, 503]),
    st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.none() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["results", "shipments", "label", "reference", "error", "code"]
                    ),
                    inner,
                    max_size=4,
                )
            ),
        ).map(lambda value: {"value": value} if not isinstance(value, dict | list) else value),
        st.sampled_from(["<a/>", "<error code='1'>x</error>", "<!DOCTYPE a><a/>", "[" * 100_000]),
    ),
)


def endless(steps, answers):
    """Drive steps with generated answers for as long as they ask."""
    try:
        next(steps)
        while True:
            steps.send(answers.draw(ANSWERS))
    except StopIteration as end:
        return end.value


@EACH
@given(answers=st.data())
def test_no_answer_makes_an_adapter_raise_or_announce_out_of_thin_air(adapter, answers):
    outcome = endless(adapter.announce(CONSIGNMENT), answers)
    assert isinstance(outcome, OUTCOMES)
    assert not isinstance(outcome, Announced)


@EACH
@given(answers=st.data())
def test_no_answer_makes_a_lookup_a_void_or_a_probe_raise(adapter, answers):
    found = endless(adapter.lookup("ref-1", CONSIGNMENT.credentials), answers)
    assert isinstance(found, Found | Absent | Unknown)
    voided = endless(adapter.void(PURCHASE, CONSIGNMENT.credentials), answers)
    assert isinstance(voided, Voided | Refused | Throttled | NotSent | Unknown)
    probed = endless(adapter.probe(CONSIGNMENT.credentials), answers)
    assert isinstance(probed, Answered | Unknown)


@EACH
def test_exactly_purchases_and_voids_are_marked(adapter):
    probe = next(adapter.probe(CONSIGNMENT.credentials))
    assert not probe.acts
    if adapter.repeats == "lookup":
        assert not next(adapter.lookup("ref-1", CONSIGNMENT.credentials)).acts
    if adapter.code != "lantern":  # its first request is a login
        assert next(adapter.announce(CONSIGNMENT)).acts
        assert next(adapter.void(PURCHASE, CONSIGNMENT.credentials)).acts


@EACH
def test_a_probe_reads_refusals_as_life_and_failures_as_none(adapter):
    for status, alive in [(200, True), (401, True), (404, True), (429, False), (503, False)]:
        _, outcome = drive(adapter.probe(CONSIGNMENT.credentials), response(status))
        assert isinstance(outcome, Answered) is alive, status


@EACH
def test_a_carrier_that_cannot_be_asked_says_so_without_a_request(adapter):
    if adapter.repeats != "lookup":
        requests, outcome = drive(adapter.lookup("ref-1", CONSIGNMENT.credentials))
        assert (requests, outcome.reason) == ([], "no_lookup")


@EACH
def test_secrets_stay_out_of_reprs(adapter):
    request = next(adapter.announce(CONSIGNMENT))
    secretive = type(CONSIGNMENT)(
        **{
            name: getattr(CONSIGNMENT, name)
            for name in ("reference", "product", "receiver", "sender", "weight_g")
        },
        credentials={"api_key": "hush-1", "password": "hush-2", "username": "hush-3"},
    )
    request = next(adapter.announce(secretive))
    assert "hush" not in repr(request) + repr(secretive)


@responses.activate
def test_an_adapter_talks_through_the_transport():
    responses.post(
        "http://carrier.test/v2/shipments",
        status=422,
        json={"code": "ADDRESS_INVALID", "message": "no such street"},
        match=[responses.matchers.header_matcher({"Authorization": "Bearer k"})],
    )
    steps = CARRIERS["postnl"].announce(CONSIGNMENT)
    outcome = perform(steps, "http://carrier.test/v2/", 5.0, 1.0)
    assert outcome == Refused("ADDRESS_INVALID", "no such street")


@responses.activate
@pytest.mark.parametrize("error", [requests_library.ConnectionError, requests_library.Timeout])
def test_the_transport_raises_nothing_for_the_clients_errors(error):
    responses.post("http://carrier.test/shipments", body=error("gone"))
    steps = CARRIERS["postnl"].announce(CONSIGNMENT)
    assert isinstance(perform(steps, "http://carrier.test", 5.0, 1.0), NotSent)
