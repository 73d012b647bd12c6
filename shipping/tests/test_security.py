"""Headers, and Django's own checks with production's settings."""

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as project
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.test import AsyncClient, Client

from carriers.adapters import CODES
from parcels.services.cancel import CANCELLABLE_DAYS
from shipping import checks

CHECK = ("check", "--deploy", "--fail-level", "WARNING")


def test_the_api_lets_a_browser_run_nothing(client: Client) -> None:
    response = client.get("/api/v2/schema")
    assert response["Content-Security-Policy"].startswith("default-src 'none'")
    assert response["Cache-Control"] == "no-store"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["X-Frame-Options"] == "DENY"
    assert response["Referrer-Policy"] == "same-origin"
    assert "camera=()" in response["Permissions-Policy"]


async def test_the_asynchronous_stack_has_them_too(async_client: AsyncClient) -> None:
    response = await async_client.get("/healthz")
    assert "frame-ancestors 'none'" in response["Content-Security-Policy"]


@pytest.mark.django_db
def test_the_admin_needs_no_inline_script(admin_client: Client) -> None:
    response = admin_client.get("/admin/")
    script = response["Content-Security-Policy"]
    assert "unsafe-inline" not in script
    assert b"<script>" not in response.content
    assert admin_client.get("/admin/login/").status_code == 302
    assert Client().get("/admin/").status_code == 302


LOOPBACK = {"ALLOWED_HOSTS": "localhost"}


def run(run_dir: Path, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command of manage.py with a production's environment and nothing else."""
    environment = {
        "PATH": os.environ["PATH"],
        "RUN_DIR": str(run_dir),
        "SECRET_KEY": secrets.token_urlsafe(64),
        "OFFLOAD_SECRET": secrets.token_urlsafe(64),
        "ALLOWED_HOSTS": "api.example",
        "PUBLIC_URL": "https://api.example",
        "DATABASE_URL": f"sqlite:///{run_dir}/db.sqlite3",
        **{f"CARRIER_URL_{code.upper()}": f"https://{code}.example" for code in CODES},
        **changes,
    }
    return subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=project.BASE_DIR, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_carrier_gets_its_own_credentials_of_ours(tmp_path: Path) -> None:
    """And production has none by default; nobody's other names are HTTPS only unless asked for."""
    script = (
        "from django.conf import settings as s; "
        "print(s.HOUSE_CREDENTIALS, s.SECURE_HSTS_INCLUDE_SUBDOMAINS, s.SECURE_HSTS_PRELOAD, "
        "s.SESSION_COOKIE_AGE)"
    )
    done = run(tmp_path, "shell", "--no-imports", "-c", script,
               CARRIER_CREDENTIALS_POSTNL='{"api_key": "ours"}')  # fmt: skip
    expected = {code: {"api_key": "ours"} if code == "postnl" else {} for code in CODES}
    assert done.stdout.strip() == f"{expected} False False 43200", done.stderr


def test_a_public_address_with_a_path_ends_the_start(tmp_path: Path) -> None:
    done = run(tmp_path, *CHECK, PUBLIC_URL="https://api.example/")
    assert done.returncode != 0
    assert "PUBLIC_URL='https://api.example/'" in done.stderr


def test_the_history_is_kept_for_as_long_as_a_cancellation_asks_it(tmp_path: Path) -> None:
    least = (CANCELLABLE_DAYS + 1) * 24 * 3600  # its answer may take a day
    refused = run(tmp_path, "check", HISTORY_KEEP=f"{least}")
    assert f"HISTORY_KEEP='{least}' is under its minimum" in refused.stderr


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("WAIT_DEFAULT", 120),
        ("CARRIER_BREAKER_MIN_CALLS", 20),
        ("CARRIER_BREAKER_RAMP_FROM", 50),
        ("CARRIER_GUARD_TIMEOUT", 1),
        ("ANNOUNCEMENT_LEASE", 3_153_600_000),  # shown with all its digits
    ],
)
def test_what_is_over_its_bound_ends_the_start(tmp_path: Path, name: str, most: int) -> None:
    refused = run(tmp_path, "check", **{name: f"{most + 1}"})
    assert f"{name}={most + 1} is over its maximum of {most}" in refused.stderr
    done = run(tmp_path, "check", **{name: f"{most}"})
    assert done.returncode == 0, done.stderr


def test_the_default_wait_is_not_over_the_longest(tmp_path: Path) -> None:
    done = run(tmp_path, "check", WAIT_MAXIMUM="30")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("WAIT_MAXIMUM", 120),
        ("CARRIER_CALL_DEADLINE", 30),
        ("CARRIER_PROBE_DEADLINE", 30),
        ("WEBHOOK_DEADLINE", 30),
    ],
)
def test_what_a_stop_would_cut_is_refused_outside_the_lab(
    tmp_path: Path, name: str, most: int
) -> None:
    refused = run(tmp_path, "check", **{name: f"{most + 1}"})
    assert f"{name}={most + 1} is over its maximum of {most}" in refused.stderr
    for environment in ({name: f"{most}"}, {name: f"{most + 1}", "DEMO": "1"} | LOOPBACK):
        done = run(tmp_path, "check", **environment)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FAULT_GUARDS_OFF", "unknown"),
        ("FAULT_CRASH_AT", "after_send:2"),
        ("FAULT_PAUSE_AT", "before_send"),
        ("TIME_SCALE", "0.5"),
    ],
)
def test_what_the_fault_suite_sets_ends_the_start_elsewhere(
    tmp_path: Path, name: str, value: str
) -> None:
    refused = run(tmp_path, "check", **{name: value})
    assert "are for the fault suite, with DEMO=1" in refused.stderr
    done = run(tmp_path, "check", **{name: value}, DEMO="1", **LOOPBACK)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("password", ["short-1x", "password1234", "operator1234", "123456789012"])
def test_a_weak_password_is_refused(password: str) -> None:
    with pytest.raises(ValidationError):
        validate_password(password, User(username="operator"))
    validate_password("a longer phrase", User(username="operator"))


def test_the_deployment_checks_are_clean(tmp_path: Path) -> None:
    done = run(tmp_path, *CHECK)
    assert done.returncode == 0, done.stderr


def test_what_is_unsafe_is_named(tmp_path: Path) -> None:
    """The control of the test above: one run with several faults."""
    done = run(
        tmp_path, *CHECK, SECRET_KEY="short", SECURE_SSL_REDIRECT="0", ANNOUNCEMENT_LEASE="1",
        CARRIER_URL_LANTERN="",
    )  # fmt: skip
    assert done.returncode != 0
    for named in ("shipping.E001", "shipping.E002", "shipping.E006", "security.W008"):
        assert named in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "check", "id_"),
    [
        ("WEBHOOK_PORTS", ["https"], checks.check_numbers, "shipping.E005"),
        ("WEBHOOK_PORTS", [], checks.check_numbers, "shipping.E005"),
        ("WEBHOOK_PORTS", ["0"], checks.check_numbers, "shipping.E005"),
        ("ANNOUNCEMENT_LEASE", 1, checks.check_numbers, "shipping.E001"),
        ("CARRIERS", {"postnl": {"url": ""}}, checks.check_carriers, "shipping.E002"),
        (
            "HOUSE_CREDENTIALS",
            {"lantern": {"username": "us"}},
            checks.check_house_credentials,
            "shipping.E011",
        ),
    ],
)
def test_a_wrong_setting_is_named(
    settings: Any, name: str, value: Any, check: Any, id_: str
) -> None:
    assert check(None) == []
    setattr(settings, name, value)
    messages = check(None)
    assert {message.id for message in messages} == {id_}
    assert all(message.hint for message in messages)
