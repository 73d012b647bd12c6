"""The demo's secrets are known to all: it is refused where others could reach it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings


def loaded(run_dir: Path, **environment: str) -> str:
    """Return what the settings complain of, in a process of their own; empty for nothing."""
    done = subprocess.run(
        [sys.executable, "-c", "import shipping.settings"],
        cwd=settings.BASE_DIR,
        env={"PATH": os.environ["PATH"], "RUN_DIR": str(run_dir), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == (done.stderr == "")
    return done.stderr


@pytest.mark.parametrize(
    "beyond",
    [
        {"BIND_HOST": "0.0.0.0"},
        {"BIND_HOST": "192.0.2.1"},
        {"ALLOWED_HOSTS": "localhost,parcels.example"},
        {"ALLOWED_HOSTS": "*"},
    ],
)
def test_off_loopback_there_is_no_demo(tmp_path: Path, beyond: dict[str, str]) -> None:
    assert "DEMO=1 is for loopback" in loaded(tmp_path, DEMO="1", **beyond)
    given = {"SECRET_KEY": "x" * 50, "OFFLOAD_SECRET": "x" * 32}
    assert not loaded(tmp_path, **given, **beyond)


def test_on_loopback_there_is(tmp_path: Path) -> None:
    assert not loaded(tmp_path, DEMO="1")
    assert not loaded(tmp_path, DEMO="1", BIND_HOST="::1", ALLOWED_HOSTS="[::1],localhost")
