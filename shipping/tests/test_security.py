"""Headers, the admin's door, and Django's own checks with production's settings."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as project
from django.test import AsyncClient, Client

from parcels.throttling.limits import Limit
from shipping import checks, security


class Counting:
    """Windows that never slide."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def wait(self, name: str, limits: tuple[Limit, ...]) -> float:
        self.counts[name] = self.counts.get(name, 0) + 1
        return 30.0 if self.counts[name] > limits[0].requests else 0.0


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Counting:
    # A hundred guesses by the real hasher would take a minute.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    fake = Counting()
    monkeypatch.setattr(security, "windows", lambda: fake)
    return fake


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


@pytest.mark.django_db
def test_guessing_at_the_admin_is_stopped(counting: Counting) -> None:
    client, tried = Client(), {"username": "root", "password": "guess"}
    answers = [client.post("/admin/login/", tried) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [200] * 10 + [429]
    assert answers[10]["Retry-After"] == "31"
    elsewhere = client.post("/admin/login/", tried, REMOTE_ADDR="192.0.2.7")
    assert elsewhere.status_code == 200


@pytest.mark.django_db
def test_a_name_is_limited_over_many_addresses(counting: Counting) -> None:
    client, tried = Client(), {"username": "root", "password": "guess"}
    for number in range(100):
        client.post("/admin/login/", tried, REMOTE_ADDR=f"192.0.2.{number}")
    assert client.post("/admin/login/", tried, REMOTE_ADDR="198.51.100.1").status_code == 429
    assert not any("root" in name for name in counting.counts)


@pytest.mark.django_db
def test_looking_at_the_login_page_counts_nothing(counting: Counting) -> None:
    Client().get("/admin/login/")
    assert not counting.counts


def checked(run_dir: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run `check --deploy` with a production's environment and nothing else."""
    environment = {
        "PATH": os.environ["PATH"],
        "RUN_DIR": str(run_dir),
        "SECRET_KEY": secrets.token_urlsafe(64),
        "OFFLOAD_SECRET": secrets.token_urlsafe(64),
        "ALLOWED_HOSTS": "api.example",
        "PUBLIC_URL": "https://api.example",
        "DATABASE_URL": f"sqlite:///{run_dir}/db.sqlite3",
        **changes,
    }
    return subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=project.BASE_DIR, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_deployment_checks_are_clean(tmp_path: Path) -> None:
    done = checked(tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_is_unsafe_is_named(tmp_path: Path) -> None:
    """The control of the test above: one run with several faults."""
    done = checked(tmp_path, SECRET_KEY="short", SECURE_SSL_REDIRECT="0", ANNOUNCEMENT_LEASE="1")
    assert done.returncode != 0
    for named in ("shipping.E001", "shipping.E006", "security.W008"):
        assert named in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "check", "id_"),
    [
        ("THROTTLE_READ", "lots", checks.check_throttles, "shipping.E004"),
        ("THROTTLE_WRITE", "", checks.check_throttles, "shipping.E004"),
        ("WEBHOOK_PORTS", ["https"], checks.check_webhook_ports, "shipping.E005"),
        ("WEBHOOK_PORTS", ["0"], checks.check_webhook_ports, "shipping.E005"),
        ("WAIT_DEFAULT", 500, checks.check_waits, "shipping.E003"),
        ("ANNOUNCEMENT_LEASE", 1, checks.check_lease, "shipping.E001"),
        ("CARRIERS", {}, checks.check_carriers, "shipping.E002"),
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
