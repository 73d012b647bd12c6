"""What `make run` prints once all is ready: addresses, keys, and two requests to paste."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from deploy.plan import Plan
from deploy.strategy import fill_in

ADDRESS = {
    "name": "Ada Example",
    "address": "Havenstraat",
    "house_number": "12",
    "city": "Utrecht",
    "postal_code": "3511 AB",
    "country": "NL",
    "weight": "2.000",
}
# Each request stands on a line of its own, without prefix or colour.
TEXT = Path(__file__).with_suffix(".txt")


def welcome(plan: Plan, accounts: Mapping[str, str], *, bold: bool, proxied: bool) -> str:
    """Return the text; where the shell has a proxy, its requests pass it by: it is for loopback."""
    login = shlex.quote(f"{accounts['PUBLIC_KEY']}:{accounts['SECRET_KEY']}")
    curl = f"curl -sS{' --noproxy 127.0.0.1' if proxied else ''} -u {login}"
    admin = ""
    if "ADMIN_PASSWORD" in accounts:
        admin = f"   user {accounts['ADMIN_USER']}, password {accounts['ADMIN_PASSWORD']}"
    values = {
        **accounts,
        "BASE_URL": f"http://127.0.0.1:{plan.environment['PORT']}",
        "LIVE_URL": plan.environment["LIVE_URL"],
        "STRATEGY": plan.strategy.name,
        "DATABASE": without_password(plan.environment["DATABASE_URL"]),
        "ADMIN": admin,
        "ADDRESS": json.dumps(ADDRESS, separators=(",", ":"))[1:-1],
        "CURL": curl,
        "POST": f"{curl} -H 'Content-Type: application/json'",
        "SYNC_PDF": shlex.quote(str(plan.run_dir / "label-sync.pdf")),
        "ASYNC_PDF": shlex.quote(str(plan.run_dir / "label-async.pdf")),
        "BOLD": "\033[1m" if bold else "",
        "PLAIN": "\033[0m" if bold else "",
    }
    return fill_in(TEXT.read_text(), values, TEXT.name)


def without_password(url: str) -> str:
    """Return an address as it may be shown."""
    password = urlsplit(url).password
    return url.replace(f":{password}@", ":…@", 1) if password else url
