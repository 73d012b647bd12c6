"""Releases and tickets made without Django, to lose one half of them on purpose."""

import json
import time

from offload.keys import ANSWER_KEY, LATE_KEY, RELEASED_CHANNEL
from offload.protocol import Answer, encode_answer
from offload.tests.processes import SECRET
from offload.tickets import make_ticket, read_ticket

LATE = Answer(
    202,
    (
        ("Content-Type", "application/json"),
        ("Location", "/outcome"),
        ("Retry-After", "5"),
        ("X-Frame-Options", "DENY"),
        ("Set-Cookie", "a=1; Path=/"),
        ("Set-Cookie", "b=2; Path=/"),
    ),
    b'{"late": true}',
)


def answer(text="done", status=200):
    body = json.dumps({"final": text}).encode()
    return Answer(status, (("Content-Type", "application/json"), ("X-Outcome", "yes")), body)


def ticket(hold_id, *, wait=30.0, account="", redis_client=None, secret=SECRET):
    """Make a ticket, and store its late answer where Redis is given."""
    text = make_ticket(secret, hold_id, account=account, deadline=time.time() + wait)
    if redis_client is not None:
        nonce = read_ticket(secret, text, now=time.time()).nonce
        redis_client.set(LATE_KEY + nonce, encode_answer(LATE, packed=True), ex=120)
    return text


def store(redis_client, hold_id, value=None):
    redis_client.set(ANSWER_KEY + hold_id, encode_answer(value or answer()), ex=120)


def wake(redis_client, hold_id):
    redis_client.publish(RELEASED_CHANNEL, hold_id)


def release(redis_client, hold_id, value=None):
    store(redis_client, hold_id, value)
    wake(redis_client, hold_id)


def commit(outcomes, hold_id, **outcome):
    """Write the outcome into the test project's database, and tell nobody."""
    (outcomes / f"{hold_id}.json").write_text(json.dumps(outcome))


def questions(outcomes):
    """Return what the test project was asked."""
    asked = outcomes / "asked"
    return [json.loads(line) for line in asked.read_text().splitlines()] if asked.exists() else []


def read(hold_id):
    """Return a ticket as the hub reads it."""
    return read_ticket(SECRET, ticket(hold_id), now=time.time())
