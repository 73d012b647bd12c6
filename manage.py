#!/usr/bin/env python
"""Run Django's management commands for this project."""

import os
import sys
from pathlib import Path

from deploy.env_file import read_env_file

ROOT = Path(__file__).resolve().parent
# With one of these set, the caller has said what to work on.
SAID = ("SECRET_KEY", "SECRET_KEY_FILE", "DEBUG", "DEMO")
# These serve nobody and store nothing: they need no secret, and help before anything is set up.
HELPERS = {"doctor", "explain", "carriers", "outage", "limits"}

# Their statements may take longer than one that a client waits for.
UNHURRIED = {
    "migrate", "demo_account", "after_restore", "bench_data", "reencrypt", "forget",
    "reconcile_invoices", "loaddata", "dumpdata", "shell", "dbshell",
}  # fmt: skip


def join_run() -> None:
    """Work on the `make run` that goes on here, where the caller says nothing else."""
    run_dir = Path(os.environ.get("RUN_DIR") or ROOT / ".run")
    # A shell that has taken in `demo.env` has the shop's key, which says nothing.
    if os.environ.get("SECRET_KEY") == read_env_file(run_dir / "accounts.env").get("SECRET_KEY"):
        os.environ.pop("SECRET_KEY", None)
    if any(os.environ.get(name) for name in SAID):
        return
    for name, value in read_env_file(run_dir / "manage.env").items():
        os.environ.setdefault(name, value)
    if len(sys.argv) > 1 and sys.argv[1] in HELPERS:
        os.environ.setdefault("DEMO", "1")


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shipping.settings")
    join_run()
    if UNHURRIED.intersection(sys.argv[1:2]):
        os.environ["DATABASE_STATEMENT_TIMEOUT"] = "0"
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        next_ = "Next: make run, whose settings each command here takes, or DEBUG=1"
        sys.stderr.write(f"Trouble: {error}\n{next_}\n")
        sys.exit(2)  # not 1: by that reconcile_invoices says that something differs


if __name__ == "__main__":
    main()
