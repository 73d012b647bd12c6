"""A wrong setting is a system check with an id and a hint."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import connections

from carriers import registry
from parcels import fault_settings
from parcels.services.claim import LEASE_SHARE
from parcels.services.job import GUARD_WINDOW
from parcels.throttling.limits import parse_limits


@register
def check_lease(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """The latest call must end inside its lease, or two workers own one announcement.

    That is one that begins to connect at the end of the send guard's share and window.
    """
    call = settings.CARRIER_CALL_DEADLINE + GUARD_WINDOW
    call += min(settings.CARRIER_CONNECT_TIMEOUT, settings.CARRIER_CALL_DEADLINE)
    least = max(call / (1 - LEASE_SHARE), 2 * settings.CARRIER_CALL_DEADLINE)
    if least <= settings.ANNOUNCEMENT_LEASE:
        return []
    return [
        Error(
            f"ANNOUNCEMENT_LEASE is under {least:.4g} s: a call could outlast it.",
            hint="Unset, it is 2.5 times CARRIER_CALL_DEADLINE. Or shorten the time for"
            " connecting, CARRIER_CONNECT_TIMEOUT.",
            id="shipping.E001",
        )
    ]


@register
def check_carriers(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Each carrier needs an address; only development and the demo know a simulated one."""
    return [
        Error(
            f"The address of carrier {code} can't be used: {problem}.",
            hint=f"Set CARRIER_URL_{code.upper()}.",
            id="shipping.E002",
        )
        for code, carrier in settings.CARRIERS.items()
        if (problem := _problem_of(str(carrier["url"])))
    ]


def _problem_of(url: str) -> str:
    """Say what is wrong with a carrier's address; both transports take what has nothing wrong."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 # raises for one that is no number
    except ValueError as error:
        return str(error)
    if " " in url or not (url.isascii() and url.isprintable()):
        return "it has other characters than printable ASCII"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "it is not http://host or https://host" if url else "it is not set"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "it has more than scheme, host, port and path"
    return ""


@register
def check_house_credentials(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Credentials of ours are whole; none are fine where each account has a contract."""
    return [
        Error(
            f"CARRIER_CREDENTIALS_{c.code.upper()} lacks {', '.join(missing)}.",
            hint=f"{c.name} wants a JSON object with {', '.join(c.credential_names)}.",
            id="shipping.E011",
        )
        for c in registry.CARRIERS.values()
        if (given := settings.HOUSE_CREDENTIALS.get(c.code))
        and (missing := [name for name in c.credential_names if name not in given])
    ]


@register
def check_labels(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Labels that go to a storage need one."""
    if settings.LABELS_IN == "database" or "labels" in settings.STORAGES:
        return []
    return [
        Error(
            "LABELS_IN=storage, and there is no storage.",
            hint="Set LABELS_URL to file:///folder or s3://bucket/prefix.",
            id="shipping.E012",
        )
    ]


@register
def check_waits(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """The default wait can't be over the maximum."""
    if settings.WAIT_DEFAULT <= settings.WAIT_MAXIMUM:
        return []
    return [
        Error(
            "WAIT_DEFAULT is over WAIT_MAXIMUM.",
            hint="Lower WAIT_DEFAULT or raise WAIT_MAXIMUM.",
            id="shipping.E003",
        )
    ]


@register
def check_throttles(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """The general limits can be read."""
    messages: list[CheckMessage] = []
    for name in ("THROTTLE_READ", "THROTTLE_WRITE"):
        try:
            parse_limits(getattr(settings, name))
        except ValueError as error:
            hint = f'Set {name} to one like "1000/min", several like "100/min,15/s", or "none".'
            messages.append(Error(f"{name}: {error}.", hint=hint, id="shipping.E004"))
    return messages


@register
def check_webhook_ports(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Ports are numbers."""
    if all(port.isdecimal() and 0 < int(port) < 65536 for port in settings.WEBHOOK_PORTS):
        return []
    return [
        Error(
            "WEBHOOK_PORTS has a value that is no port.",
            hint="Set ports separated by commas, like 443,8443.",
            id="shipping.E005",
        )
    ]


@register
def check_secret_key(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Keys are hashed and secrets encrypted with it: it must not be guessable."""
    if settings.DEBUG or settings.DEMO or len(settings.SECRET_KEY) >= 50:
        return []
    return [
        Error(
            "SECRET_KEY is shorter than 50 characters.",
            hint="Set 50 random characters or more.",
            id="shipping.E006",
        )
    ]


@register
def check_breaker(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """The breaker's numbers must leave it able to open, and to recover."""
    wrong = [
        (
            settings.CARRIER_BREAKER_MIN_CALLS > settings.CARRIER_BREAKER_WINDOW,
            "CARRIER_BREAKER_MIN_CALLS is over CARRIER_BREAKER_WINDOW: it would never open.",
            "Lower CARRIER_BREAKER_MIN_CALLS.",
        ),
        (
            settings.CARRIER_BREAKER_RAMP_FROM > settings.CARRIER_BREAKER_RAMP_TO,
            "CARRIER_BREAKER_RAMP_FROM is over CARRIER_BREAKER_RAMP_TO.",
            "Calls per second, from the first instant of a recovery to its end.",
        ),
        (
            settings.CARRIER_GUARD_TIMEOUT > 1,
            "CARRIER_GUARD_TIMEOUT is over a second: a Redis that hangs would delay every call.",
            "Leave it unset: it is 0.25 then.",
        ),
    ]
    return [Error(text, hint=hint, id="shipping.E007") for bad, text, hint in wrong if bad]


@register
def check_settling(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """An absence that is believed while the carrier may still book is a second purchase."""
    return [
        Error(
            f"{c.name} may work for {c.longest_work:g} s on a request after its call, but its "
            f"settling window ends after {c.settling:g} s.",
            hint=f"Raise `settling` in the adapter of {c.code}.",
            id="shipping.E010",
        )
        for c in registry.CARRIERS.values()
        if c.repeats == "lookup" and c.settling < c.longest_work
    ]


@register
def check_faults(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Guards and points must be known: of one that is not, nothing would be seen."""
    return [Error(text, id="shipping.E009") for text in fault_settings.mistakes()]


@register(deploy=True)
def check_room(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Carriers that hang must leave room for the others."""
    calls = sum(int(carrier["bulkhead"]) for carrier in settings.CARRIERS.values())
    if calls < settings.WORKER_CONCURRENCY:
        return []
    return [
        CheckWarning(
            f"All carriers' bulkheads together ({calls}) are all calls of a worker "
            f"(WORKER_CONCURRENCY={settings.WORKER_CONCURRENCY}): carriers that hang stop it.",
            hint="Raise WORKER_CONCURRENCY or lower CARRIER_BULKHEAD. With several workers, "
            "compare the sum of theirs.",
            id="shipping.W001",
        )
    ]


@register(Tags.database)
def check_synchronous_commit(databases: Any = None, **_: Any) -> list[CheckMessage]:
    """What was accepted, and that a purchase was begun, must not be lost by a restart."""
    return [
        CheckWarning(
            "The database says synchronous_commit=off: a crash loses parcels that "
            "were answered 202, and labels may be bought twice.",
            hint="Set it to on, in postgresql.conf and for the role.",
            id="shipping.W002",
        )
        for alias in databases or []
        if connections[alias].vendor == "postgresql"
        and _shown(alias, "synchronous_commit") == "off"
    ]


@register(Tags.database)
def check_statement_timeout(databases: Any = None, **_: Any) -> list[CheckMessage]:
    """A pooler drops what we ask of each session: then the role has to say it."""
    return [
        CheckWarning(
            f"The server ends no statement after {settings.DATABASE_STATEMENT_TIMEOUT:g} s: a "
            "pooler has dropped that setting. Ours is given up two seconds later, and goes on "
            "there.",
            hint="ALTER ROLE … SET statement_timeout = "
            f"'{settings.DATABASE_STATEMENT_TIMEOUT:g}s'; and, for what a vanished client has "
            "locked, idle_in_transaction_session_timeout = '30s'.",
            id="shipping.W003",
        )
        for alias in databases or []
        if connections[alias].vendor == "postgresql"
        and settings.DATABASE_STATEMENT_TIMEOUT
        and _shown(alias, "statement_timeout") == "0"
    ]


def _shown(alias: str, setting: str) -> str:
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SHOW {setting}")
        return str(cursor.fetchone()[0])
