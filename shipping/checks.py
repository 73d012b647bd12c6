"""A wrong setting is a system check with an id and a hint."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.db import connections

from carriers import registry
from parcels.services.claim import LEASE_SHARE
from parcels.services.job import GUARD_WINDOW


@register
def check_numbers(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """What is wrong with one setting, or with two beside each other."""
    s = settings
    call = s.CARRIER_CALL_DEADLINE + min(s.CARRIER_CONNECT_TIMEOUT, s.CARRIER_CALL_DEADLINE)
    least = max(2 * s.CARRIER_CALL_DEADLINE, (call + GUARD_WINDOW) / (1 - LEASE_SHARE))
    wrong = [
        (
            # Or two workers own one announcement. The latest call begins to connect at the end of
            # the send guard's share and window.
            least > s.ANNOUNCEMENT_LEASE,
            "E001",
            f"ANNOUNCEMENT_LEASE is under {least:.4g} s: a call could outlast it.",
            f"Set it to {least:.4g} at least, or lower CARRIER_CONNECT_TIMEOUT.",
        ),
        (
            s.LABELS_IN != "database" and "labels" not in s.STORAGES,
            "E012",
            "LABELS_IN=storage, and there is no storage.",
            "Set LABELS_URL to file:///folder or s3://bucket/prefix.",
        ),
        (
            not s.WEBHOOK_PORTS
            or not all(port.isdecimal() and 0 < int(port) < 65536 for port in s.WEBHOOK_PORTS),
            "E005",
            "WEBHOOK_PORTS has no port, or a value that is none.",
            "Set ports separated by commas, like 443,8443.",
        ),
        (
            # Keys are hashed and secrets encrypted with it: it must not be guessable.
            not (s.DEBUG or s.DEMO or len(s.SECRET_KEY) >= 50),
            "E006",
            "SECRET_KEY is shorter than 50 characters.",
            "Set 50 random characters or more.",
        ),
    ]
    return [Error(text, hint=hint, id=f"shipping.{e}") for bad, e, text, hint in wrong if bad]


@register
def check_carriers(app_configs: Any, **_: Any) -> list[CheckMessage]:
    """Each carrier needs an address; only development and the demo know a simulated one."""
    urls = {f"CARRIER_URL_{code.upper()}": each["url"] for code, each in settings.CARRIERS.items()}
    if settings.TRACKING_FEED_URL:
        urls["TRACKING_FEED_URL"] = settings.TRACKING_FEED_URL
    return [
        Error(f"{name} can't be used: {problem}.", hint=f"Set {name}.", id="shipping.E002")
        for name, url in urls.items()
        if (problem := _problem_of(str(url)))
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
