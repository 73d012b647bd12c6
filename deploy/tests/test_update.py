"""deploy/base/update.sh: what it says to the engine; with a real one, deploy/tests/compose."""

import os
import subprocess

import pytest

from deploy.plan import ROOT

# Three of web, two of hub, four of worker; and each call is written down.
STUB = """#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
[ "$1" != compose ] || shift
[ "$1 $2" = "ps -q" ] || exit 0
shift 2
for service in "$@"; do
    case $service in web) echo w1 w2 w3;; hub) echo h1 h2;; worker) echo a1 a2 a3 a4;; esac
done | tr ' ' '\\n'
"""


@pytest.mark.parametrize(
    ("given", "said"),
    [({}, "docker-compose"), ({"COMPOSE": "docker compose"}, "docker compose")],
    ids=["docker-compose", "docker compose"],
)
def test_it_keeps_the_numbers_and_ends_the_old_ones(given, said, tmp_path):
    for name in ("docker", "docker-compose"):
        (tmp_path / name).write_text(STUB)
        (tmp_path / name).chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k != "COMPOSE"}
    environment |= {"TAG": "2", "CALLS": str(tmp_path / "calls"), **given}
    environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["sh", "deploy/base/update.sh"], cwd=ROOT, env=environment, check=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    up = f"{said} up --detach --no-deps"
    assert [call for call in calls if " ps -q " not in call] == [
        f"{said} run --rm migrate",
        f"{up} --scale worker=4 worker sweeper",
        f"{up} --no-recreate --scale web=6 --scale hub=4 hub web",
        f"{said} exec -T -e APP_HOST=web-2 -e HUB_BIND=hub-2:8100 front"
        " python -m deploy.container reload",
        "docker stop --time 140 h1 h2 w1 w2 w3",
        "docker rm h1 h2 w1 w2 w3",
    ]
