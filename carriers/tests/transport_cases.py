"""What both transports must make of each misbehaviour: one table, two test modules."""

import gzip
import os
import random
import resource
import socket
from contextlib import contextmanager

from carriers.classify import Phase, Promises, answer
from carriers.messages import Address, CarrierRequest, Consignment
from carriers.outcomes import Answered, NotSent, Unknown
from carriers.tests import servers

# Seconds. Short enough for a quick suite, long enough for two busy cores.
DEADLINE = 1.5
CONNECT = 1.0
# By now only a missing deadline has not ended a call, however busy the machine.
MUCH_LATER = 10 * DEADLINE


def steps(*requests: CarrierRequest):
    """Send requests one after the other; end on the first that isn't answered 200."""
    for request in requests:
        response = yield request
        if response.status != 200:
            return answer(response.status, None, None, Phase.BUYING, Promises())
    return Answered()


def buying(path="/buy", body=b"{}"):
    return CarrierRequest("POST", path, {"Content-Type": "application/json"}, body, acts=True)


def asking(path="/ask"):
    return CarrierRequest("GET", path)


CONSIGNMENT = Consignment(
    reference="ref-1",
    product="8",
    receiver=Address(name="A. Receiver", country="NL"),
    sender=Address(name="A. Sender", country="NL"),
    weight_g=500,
    credentials={"api_key": "k", "username": "u", "password": "p"},
)

# Values of headers. `requests` refuses a blank at the front and sends one at the end.
UNSENDABLE = ("line\r\nbreak", "snow ☃", " blank in front", "blank at the end ")

ZIPPED = gzip.compress(random.Random(1).randbytes(40_000))

# (handler, allowed outcomes for a purchase, remark)
MISBEHAVIOURS = [
    (servers.answering(servers.http(200, b"{}")), {Answered()}, "the control: all is well"),
    (
        servers.answering(b"HTTP/1.1 100 Continue\r\n\r\n" + servers.http(200, b"{}")),
        {Answered()},
        "an interim answer is none",
    ),
    (
        servers.answering(
            b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9\r\n\r\n"
            + servers.http(200, b"{}")
        ),
        {Answered()},
        "nor are several of other kinds",
    ),
    (
        servers.answering(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n" + servers.http(200)),
        {"unreadable"},
        "after a change of protocols there is no HTTP",
    ),
    (
        servers.answering(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        ),
        {Answered()},
        "in pieces",
    ),
    (
        servers.answering(servers.http(200, b"{}") + servers.http(500, X_Other="1")),
        {Answered()},
        "only the first answer is one",
    ),
    (
        servers.answering(b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}"),
        {Answered()},
        "lines that end as on Unix",
    ),
    (
        servers.answering(
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\n{}\r\n0\r\n\r\n"
        ),
        {Answered()},
        "in pieces, with a length beside them",
    ),
    (
        servers.answering(servers.http(200, b"{}").replace(b"HTTP/1.1", b"HTTP/1.2")),
        {Answered()},
        "a version that is none",
    ),
    (
        servers.answering(
            b"HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\n" + servers.http(200, b"{}")
        ),
        {Answered()},
        "an interim answer that says it is the last",
    ),
    (
        servers.answering(servers.http(200, b"{}", Connection="close") + servers.http(500)),
        {Answered()},
        "nothing follows the last answer",
    ),
    (
        servers.answering(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\n{}\r\n0\r\n\r\n"
        ),
        {Answered()},
        "a padded chunk size",
    ),
    (
        servers.answering(b"HTTP/1.1 200 OK\r\nX-Odd: a\x01b\r\nContent-Length: 2\r\n\r\n{}"),
        {Answered()},
        "a control character in a header",
    ),
    (
        servers.answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n{}"),
        {Answered()},
        "an encoding that is none",
    ),
    (
        servers.answering(b"HTTP/1.1 200 OK\r\n\r\n{}"),
        {Answered()},
        "a body without a length ends with its connection",
    ),
    (
        servers.answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}"),
        {"unreadable"},
        "a piece that is cut short",
    ),
    (
        servers.answering(b"HTTP/1.1 200 OK\r\n" + b"X-Flood: yes\r\n" * 9_999),
        {"unreadable"},
        "a head without an end",
    ),
    (
        servers.answering(b"HTTP/1.1 042 Odd\r\n\r\n{}"),
        {"unreadable", "reset"},
        "a status that is none, and no length",
    ),
    (servers.reset_after_reading, {"reset"}, "booked or not? nobody knows"),
    (servers.close_after_reading, {"reset"}, "a polite close says as little"),
    (servers.hang, {"timeout"}, "never answers"),
    (servers.trickle_headers, {"timeout"}, "each read succeeds; only the total is exceeded"),
    (servers.trickle_body, {"timeout"}, "the same after the headers"),
    (servers.trickle_endless_body, {"timeout"}, "being cut must not look like the end of the body"),
    (servers.interim_without_end, {"unreadable"}, "what never becomes an answer"),
    (servers.truncate_body, {"unreadable"}, "shorter than promised"),
    (servers.flood, {"unreadable"}, "cut at the size limit"),
    (servers.garbage, {"unreadable"}, "no HTTP"),
    (servers.answering(servers.http(500)), {"server_error"}, "a 5xx is no promise of anything"),
    (
        servers.answering(servers.http(302, Location="/again"), servers.http(200, b"{}")),
        {"unreadable"},
        "a redirect is not followed: that would be a second purchase",
    ),
    (
        servers.answering(
            servers.http(302, ZIPPED, Location="/again", Content_Encoding="gzip")[:-10_000]
        ),
        {"unreadable"},
        "a redirect's body is cut, and packed: it is never unpacked",
    ),
]


def fits(outcome, allowed):
    """Tell whether an outcome is one of those allowed (reasons stand for Unknown)."""
    return outcome in allowed or (isinstance(outcome, Unknown) and outcome.reason in allowed)


def is_not_sent(outcome, reason):
    return isinstance(outcome, NotSent) and outcome.reason == reason


def closed_port():
    """Return a port that refuses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextmanager
def descriptors_left(number):
    """Let this process open so many files and sockets."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
