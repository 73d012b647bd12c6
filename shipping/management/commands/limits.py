"""`manage.py limits`: write the table of docs/limits.md from the code."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.core.management.base import BaseCommand

from offload import idle, intake
from parcels import limits

PAGE: Path = settings.BASE_DIR / "docs" / "limits.md"
SECTION = re.compile(r"(<!-- limits -->\n).*?(<!-- /limits -->)", re.DOTALL)
REFUSED = "400, nothing stored"


class Row(NamedTuple):
    """A limit as the page shows it; the tests know it by `what`."""

    what: str
    most: str
    over: str = REFUSED


def rows() -> list[Row]:
    """Return every limit, in the page's order."""
    offload = settings.OFFLOAD
    return [
        Row("Body", _bytes(settings.DATA_UPLOAD_MAX_MEMORY_SIZE), "413, unread"),
        Row("Values in a body", f"{limits.VALUES:,} commas and opening brackets"),
        Row("Depth of a body", f"{limits.DEPTH} arrays and objects inside one another"),
        Row(
            "Number in a body",
            f"{limits.NUMBER} characters; with a fraction or an exponent 1e-16 to 1e16",
        ),
        Row("Text in a body", "UTF-8 without NUL and half surrogate pairs"),
        Row("Parcels in a request", f"{limits.PARCELS}, counting colli"),
        Row("Parcel", f"{_bytes(limits.PARCEL)} of JSON"),
        Row("`parcel_items` of a parcel", f"{limits.ITEMS}"),
        Row("`parcel_items` in a request", f"{limits.ITEMS_IN_ALL:,}"),
        Row("`properties` of an item", f"{_bytes(limits.PROPERTIES)} of JSON"),
        Row("String of a parcel", f"{limits.TEXT} characters"),
        Row("`hs_code`", f"{limits.HS_CODE} characters"),
        Row("`mid_code`", f"{limits.MID_CODE} characters"),
        Row("Whole number of a parcel", f"{limits.INTEGER:,}"),
        Row("`quantity` of a parcel", f"{limits.COLLI}"),
        Row("`insured_value`", f"{limits.INSURED_VALUE:,}"),
        Row("Parcels in `POST /labels`", f"{limits.IDS}"),
        Row("Path", f"{limits.PATH} characters", "404"),
        Row("Id in a path", f"{limits.ID_DIGITS} digits", "404"),
        Row("Query", f"{limits.QUERY:,} characters"),
        Row("Parameters of a query", f"{limits.PARAMETERS}"),
        Row("Text in a query", f"{limits.TEXT} characters, without NUL"),
        Row("Number in a query", f"{limits.INTEGER:,}"),
        Row("`ids` in a query", f"{limits.IDS} of {limits.ID_DIGITS} digits"),
        Row("`Idempotency-Key`", f"{limits.IDEMPOTENCY_KEY} printable ASCII characters"),
        Row(
            "`Accept`",
            f"{limits.ACCEPT:,} characters, {limits.ACCEPT_TYPES} media types",
            "The rest is not read",
        ),
        Row("Webhook's `url`", f"{limits.WEBHOOK_URL:,} characters"),
        Row(
            "Webhook's `secret`",
            f"{limits.TEXT} characters; {limits.WEBHOOK_SECRET_MINIMUM} at least",
        ),
        Row("Webhooks of an account", f"{limits.WEBHOOKS}"),
        Row(
            "Wrong keys of an address",
            f"{limits.FAILED_KEYS} a minute, by process",
            "429 with `Retry-After`; keys that worked lately pass",
        ),
        Row("Reading requests of an account", "`THROTTLE_READ`", "429 with `Retry-After`"),
        Row("Other requests of an account", "`THROTTLE_WRITE`", "429 with `Retry-After`"),
        Row(
            "Held clients of an account",
            f"{offload['MAX_HOLDS_PER_ACCOUNT']:,} by process (`OFFLOAD_MAX_HOLDS_PER_ACCOUNT`)",
            "202 at once; the announcement goes on",
        ),
        Row(
            "Held clients",
            f"{offload['MAX_HOLDS']:,} by process (`OFFLOAD_MAX_HOLDS`)",
            "202 at once; the announcement goes on",
        ),
        Row(
            "Requests of an address under way",
            f"{limits.CONNECTIONS} (`FRONT_CONNECTIONS_PER_ADDRESS`), at nginx, or by ASGI process",
            "429",
        ),
        Row(
            "Documents and lists of parcels that an address fetches",
            f"{limits.DOCUMENTS} at once, at nginx",
            "429 with `Retry-After`",
        ),
        Row(
            f"Uploads over {intake.LARGE // 1024} KiB in flight",
            f"{intake.PLACES} by ASGI process; at nginx {limits.LARGE_UPLOADS} of an address",
            "Waits for a place; at nginx 429",
        ),
        Row(
            "Time for headers, for a refused body's rest, or without reading of the answer",
            f"{idle.LIMIT:.0f} s; at nginx 30 s for the rest, 60 s for the answer",
            "The connection is closed",
        ),
        Row(
            "Time for a body to arrive",
            f"{intake.DEADLINE:.0f} s; at nginx between two reads",
            "408; nginx closes the connection",
        ),
    ]


def _bytes(number: int) -> str:
    mega, rest = divmod(number, 1024 * 1024)
    return f"{number // 1024} KiB" if rest else f"{mega} MiB"


def written(text: str) -> str:
    """Return the page with its table as the code has it now."""
    lines = [f"| {row.what} | {row.most} | {row.over} |\n" for row in rows()]
    table = "| Input | At most | Over it |\n|---|---|---|\n" + "".join(lines)
    return SECTION.sub(lambda match: match.group(1) + table + match.group(2), text)


class Command(BaseCommand):
    help = "Write the table of docs/limits.md from the code."

    def handle(self, **_: Any) -> None:
        """Write the page."""
        PAGE.write_text(written(PAGE.read_text()))
