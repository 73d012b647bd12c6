"""What the hub asks the app, signed, and the app's answers. Standard library only."""

import hmac
import json
import re
from collections.abc import Iterable, Mapping

from offload.protocol import Answer, check_hold_id, decode_answer, encode_answer
from offload.tickets import key_of

# Seconds by which the clocks of the hub's and the app's machines may differ.
CLOCK_SKEW = 30.0


def sign_question(secret: str, body: bytes, *, now: float) -> str:
    """Return the Authorization header of a question to the app.

    Not an `X-Offload-` header: fronts blank those on the way in.
    """
    timestamp = str(int(now))
    return f"Offload {timestamp}:{_mac(secret, timestamp, body).hex()}"


def question_is_signed(
    secret: str, authorization: str, body: bytes, *, now: float, fallbacks: Iterable[str] = ()
) -> bool:
    """Say whether the header was made with our secret, for this body, half a minute ago at most.

    `fallbacks` are secrets good as well.
    """
    match = re.fullmatch(r"Offload (\d{1,12}):([0-9a-f]{64})", authorization, re.ASCII)
    if match is None or abs(now - int(match[1])) > CLOCK_SKEW:
        return False
    macs = [_mac(each, match[1], body) for each in (secret, *fallbacks)]
    return any(hmac.compare_digest(bytes.fromhex(match[2]), mac) for mac in macs)


def encode_question(hold_ids: list[str], *, final_only: bool) -> bytes:
    return json.dumps({"hold_ids": hold_ids, "final_only": final_only}).encode()


def decode_question(body: bytes) -> tuple[list[str], bool]:
    """Return hold ids and whether only final answers are wanted; ValueError if it is neither."""
    question = json.loads(body)
    if not isinstance(question, dict) or not isinstance(question.get("hold_ids"), list):
        raise ValueError("a question has a list of hold_ids")
    hold_ids = [check_hold_id(str(hold_id)) for hold_id in question["hold_ids"]]
    return hold_ids, bool(question.get("final_only", True))


def encode_answers(answers: Mapping[str, Answer]) -> bytes:
    """Return an object of the answers by hold id, each encoded as in the store."""
    pairs = (f"{json.dumps(key)}: {encode_answer(each).decode()}" for key, each in answers.items())
    return f"{{{', '.join(pairs)}}}".encode()


def decode_answers(body: bytes) -> dict[str, Answer]:
    """Return answers by hold id; ValueError if the body is something else."""
    answers = json.loads(body)
    if not isinstance(answers, dict):
        raise ValueError("answers are an object by hold id")
    return {hold_id: decode_answer(answer) for hold_id, answer in answers.items()}


def _mac(secret: str, timestamp: str, body: bytes) -> bytes:
    return hmac.digest(key_of(secret, "question"), timestamp.encode() + b"\n" + body, "sha256")
