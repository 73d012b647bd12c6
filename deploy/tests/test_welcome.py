import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.strategy import load
from deploy.tests.fixtures import absent
from deploy.welcome import welcome, without_password

ACCOUNTS = {"PUBLIC_KEY": "public", "SECRET_KEY": "secret"}
BASE = "http://127.0.0.1:8000"
ENVIRONMENT = {
    "DATABASE_URL": "postgresql://u:p4ss@host/db",
    "LIVE_URL": "http://127.0.0.1:8001",
    "PORT": "8000",
}


def text(*, accounts=ACCOUNTS, run_dir=Path("/run"), bold=False, proxied=False):
    strategy = load("asgi-hold")
    plan: Any = SimpleNamespace(environment=ENVIRONMENT, run_dir=run_dir, strategy=strategy)
    return welcome(plan, accounts, bold=bold, proxied=proxied)


def requests(printed):
    """Return the two requests, as a person would copy them."""
    return [line for line in printed.splitlines() if line.startswith(("curl ", "id=$(curl "))]


@pytest.mark.parametrize("bold", [True, False])
def test_each_request_stands_on_a_line_of_its_own(bold):
    lines = requests(text(bold=bold))
    assert len(lines) == 2
    assert all("-u public:secret" in line and "\033" not in line for line in lines)
    assert "${" not in text()


# Answers a POST with a parcel, a poll with its status, and saves the rest where `-o` says.
CURL = """#!/bin/sh
for word; do printf '<%s>' "$word"; done >> "$LOG"; echo >> "$LOG"
case "$*" in
*" -d "*) echo '{"parcel": {"id": 7, "label": {"label_printer": "http://label/7"}}}' ;;
*" -o "*) while [ "$1" != -o ]; do shift; done; echo pdf > "$2" ;;
*) echo '{"parcel": {"status": {"id": 1000}}}' ;;
esac
"""


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh"])
@pytest.mark.parametrize(
    ("which", "name", "label"),
    [
        (0, "label-sync.pdf", "http://label/7"),
        (1, "label-async.pdf", f"{BASE}/api/v2/parcels/7/documents/label"),
    ],
)
def test_the_requests_survive_awkward_folders_and_keys(tmp_path, shell, which, name, label):
    if not shutil.which(shell):
        absent(shell, f"apt-get install {shell}")
    (tmp_path / "curl").write_text(CURL)
    (tmp_path / "curl").chmod(0o755)
    folder = tmp_path / "it's a $folder"
    folder.mkdir()
    target = folder / name
    accounts = {"PUBLIC_KEY": "p", "SECRET_KEY": "it's $ecret"}
    subprocess.run(
        [shell, "-c", requests(text(accounts=accounts, run_dir=folder))[which]],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")},
        check=True,
    )
    assert target.read_text() == "pdf\n"
    calls = (tmp_path / "log").read_text().splitlines()
    assert all("<-u><p:it's $ecret>" in call for call in calls)
    assert calls[-1].endswith(f"<-o><{target}><{label}>")


@pytest.mark.parametrize(("proxied", "present"), [(True, True), (False, False)])
def test_a_proxy_is_passed_by(proxied, present):
    assert ("--noproxy" in text(proxied=proxied)) is present


@pytest.mark.parametrize(("bold", "present"), [(True, True), (False, False)])
def test_colours_only_where_they_were_asked_for(bold, present):
    assert ("\033[1m" in text(bold=bold)) is present


def test_the_admins_login_is_shown_when_there_is_one():
    assert "user admin, password pw" in text(
        accounts={**ACCOUNTS, "ADMIN_USER": "admin", "ADMIN_PASSWORD": "pw"}
    )
    assert f"{BASE}/admin/" in text()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p4ss@host:5432/db", "postgresql://u:…@host:5432/db"),
        ("postgresql://u@host/db", "postgresql://u@host/db"),
        ("sqlite:////run/db.sqlite3", "sqlite:////run/db.sqlite3"),
    ],
)
def test_passwords_are_not_shown(url, shown):
    assert without_password(url) == shown
    assert "p4ss" not in text()
