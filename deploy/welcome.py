"""What `make run` prints once all is ready: addresses, keys, and two requests to paste."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

ADDRESS = {
    "name": "Ada Example",
    "address": "Havenstraat",
    "house_number": "12",
    "city": "Utrecht",
    "postal_code": "3511 AB",
    "country": "NL",
    "weight": "2.000",
}
FREE_METHOD = 8  # "Unstamped letter": costs nothing, answers in 20 ms
SLOW_METHOD = 10  # Tortoise Post: takes its ten seconds

LABEL = 'import json,sys; print(json.load(sys.stdin)["parcel"]["label"]["label_printer"])'
ID = 'import json,sys; print(json.load(sys.stdin)["parcel"]["id"])'
STATUS = 'import json,sys; print(json.load(sys.stdin)["parcel"]["status"]["id"])'


def curl(accounts: Mapping[str, str], *, proxied: bool) -> str:
    """Return the beginning of every request; a proxy of the shell's must not see loopback."""
    login = shlex.quote(f"{accounts['PUBLIC_KEY']}:{accounts['SECRET_KEY']}")
    return f"curl -sS{' --noproxy 127.0.0.1' if proxied else ''} -u {login}"


def synchronous_line(base_url: str, request: str, target: Path) -> str:
    """Return a shell line that announces a parcel, waits in that request, and saves the label."""
    post = _post(base_url, request, {"request_label": True, "shipment": {"id": FREE_METHOD}})
    label = f"$({post} | python3 -c {shlex.quote(LABEL)})"
    return f'{request} -f -o {_quoted(target)} "{label}" && echo saved {_quoted(target)}'


def asynchronous_line(base_url: str, request: str, target: Path) -> str:
    """Return a shell line that announces at a slow carrier, polls until 1000, saves the label."""
    post = _post(base_url, request, {"request_label_async": True, "shipment": {"id": SLOW_METHOD}})
    parcel = f"{base_url}/api/v2/parcels/$id"
    state = f'$({request} "{parcel}" | python3 -c {shlex.quote(STATUS)})'
    return (
        f"id=$({post} | python3 -c {shlex.quote(ID)}); "
        f'while s="{state}"; echo "status $s"; [ "$s" = 999 ] || [ "$s" = 1001 ]; '
        f"do sleep 1; done; "
        f'{request} -f -o {_quoted(target)} "{parcel}/documents/label" '
        f"&& echo saved {_quoted(target)}"
    )


def _post(base_url: str, request: str, wishes: Mapping[str, object]) -> str:
    body = shlex.quote(json.dumps({"parcel": {**ADDRESS, **wishes}}, separators=(",", ":")))
    return f"{request} -H 'Content-Type: application/json' -d {body} {base_url}/api/v2/parcels"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def welcome(
    *,
    base_url: str,
    accounts: Mapping[str, str],
    environment: Mapping[str, str],
    run_dir: Path,
    bold: bool,
    proxied: bool,
) -> str:
    """Return the text; each request stands on a line of its own, without prefix or colour."""
    request = curl(accounts, proxied=proxied)
    heading = (lambda text: f"\033[1m{text}\033[0m") if bold else str
    return "\n".join(
        [
            "",
            heading(f"Ready: {base_url}   (Ctrl-C stops everything)"),
            "",
            f"  live page    {environment['LIVE_URL']}/",
            f"  strategy     {environment['STRATEGY']}",
            f"  database     {without_password(environment['DATABASE_URL'])}",
            f"  public key   {accounts['PUBLIC_KEY']}",
            f"  secret key   {accounts['SECRET_KEY']}",
            f"  admin        {base_url}/admin/{_admin(accounts)}",
            "",
            heading("A label in the answer to one request (paste the line):"),
            "",
            synchronous_line(base_url, request, run_dir / "label-sync.pdf"),
            "",
            heading("A label from a carrier that takes ten seconds, by polling:"),
            "",
            asynchronous_line(base_url, request, run_dir / "label-async.pdf"),
            "",
            "",
        ]
    )


def _admin(accounts: Mapping[str, str]) -> str:
    if "ADMIN_PASSWORD" not in accounts:
        return ""
    return f"   user {accounts['ADMIN_USER']}, password {accounts['ADMIN_PASSWORD']}"


def without_password(url: str) -> str:
    """Return an address as it may be shown."""
    password = urlsplit(url).password
    return url.replace(f":{password}@", ":…@", 1) if password else url
