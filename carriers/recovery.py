"""How a carrier comes back: who probes it, what the probe has shown, how fast calls are let in."""

import uuid
from typing import Any

from carriers import breaker_rules as rules
from carriers.breaker_rules import Admission, BreakerState
from carriers.guards import CarrierGuards, script
from carriers.redis_guard import Gone

FIELDS = ("mode", "changed_at", "ramping", "gated_at", "gated_until")


def admit(guards: CarrierGuards, now: float | None = None) -> Admission:
    """Ask the breaker alone, without a slot: for a probe that is due without calls."""
    token, config, moment = uuid.uuid4().hex, guards.config, "" if now is None else repr(now)
    rest = [config.open_for, config.ramp_for, config.ramp_from, config.ramp_to]
    arguments = [moment, token, *rest, config.trial_every]
    try:
        allowed, retry_after, probe = _run(guards, "breaker_admit", arguments)
    except Gone:
        return guards.local.admit(token)
    return Admission(bool(allowed), float(retry_after), probe.decode())


def record_probe(
    guards: CarrierGuards, token: str, *, alive: bool, now: float | None = None
) -> None:
    """Report the result of the probe that an admission asked for."""
    try:
        _run(guards, "breaker_probe", ["" if now is None else repr(now), token, int(alive)])
    except Gone:
        guards.local.record_probe(token, alive=alive)


def _run(guards: CarrierGuards, name: str, arguments: list[Any]) -> Any:
    registered = guards.redis.client.register_script(script(name))
    return guards.redis.ask(lambda: registered(guards.breaker_keys, arguments))


def pace(guards: CarrierGuards) -> float | None:
    """Return the calls per second that the breaker admits now: None without limit, 0 if open."""
    pipeline = guards.redis.client.pipeline(transaction=False)
    pipeline.hmget(guards.breaker_keys[0], FIELDS)
    pipeline.time()
    try:
        kept, (seconds, micro) = guards.redis.ask(pipeline.execute)
    except Gone:
        return guards.local.pace()
    mode, changed_at, ramping, gated_at, gated_until = kept
    state = BreakerState(
        "closed" if mode in (None, b"closed") else "open",
        changed_at=float(changed_at or 0),
        ramping=ramping == b"1",
        gated_at=float(gated_at or 0),
        gated_until=float(gated_until or 0),
    )
    return rules.pace(state, int(seconds) + int(micro) / 1e6, guards.config)
