"""deploy/base/update.sh: what it says to the engine; with a real one, deploy/tests/compose."""

import os
import re
import subprocess

import pytest

from deploy.plan import ROOT

# Three of web, two of hub, four of worker, two of sweeper, of the image $RUNNING, or none without
# one; and each call is written down.
STUB = """#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
[ "$1" != inspect ] || echo "slow-carriers:$RUNNING"
[ "$1" != compose ] || shift
[ "$1 $2" = "ps -q" ] && [ -n "$RUNNING" ] || exit 0
shift 2
for service in "$@"; do
    case $service in web) echo w1 w2 w3;; hub) echo h1 h2;; worker) echo a1 a2 a3 a4;;
        sweeper) echo s1 s2;; esac
done | tr ' ' '\\n'
"""

ASKING = re.compile(r" ps -q | inspect ")


def update(folder, running="1", **given):
    """Run it, with TAG=2; return how it ended, and each call."""
    for name in ("docker", "docker-compose"):
        (folder / name).write_text(STUB)
        (folder / name).chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k != "COMPOSE"}
    environment |= {"TAG": "2", "CALLS": str(folder / "calls"), "RUNNING": running, **given}
    environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    line = ["sh", "deploy/base/update.sh"]
    done = subprocess.run(
        line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done, (folder / "calls").read_text().splitlines()


@pytest.fixture(autouse=True)
def wc(tmp_path):
    """Pad the number with blanks, as a Mac's does: `docker compose` refuses such a number."""
    (tmp_path / "wc").write_text("#!/bin/sh\nprintf '%8d\\n' \"$(grep -c '')\"\n")
    (tmp_path / "wc").chmod(0o755)


@pytest.mark.parametrize(
    ("given", "said"),
    [({}, "docker-compose"), ({"COMPOSE": "docker compose"}, "docker compose")],
    ids=["docker-compose", "docker compose"],
)
def test_it_keeps_the_numbers_and_ends_the_old_ones(given, said, tmp_path):
    done, calls = update(tmp_path, **given)
    assert done.returncode == 0, done.stderr
    up = f"{said} up --detach --no-deps"
    assert [call for call in calls if not ASKING.search(call)] == [
        f"{said} run --rm migrate",
        f"{up} --scale worker=4 --scale sweeper=2 worker sweeper",
        f"{up} --no-recreate --scale web=6 --scale hub=4 hub web",
        f"{said} exec -T -e APP_HOST=web-2 -e HUB_BIND=hub-2:8100 front"
        " python -m deploy.container reload",
        "docker stop --time 140 h1 h2 w1 w2 w3",
        "docker rm h1 h2 w1 w2 w3",
    ]


def test_what_an_update_that_ended_early_left_is_not_doubled(tmp_path):
    """It would be counted as old, and stopped while the front has clients at it."""
    done, calls = update(tmp_path, running="2")
    assert done.returncode == 1
    assert "docker rm --force" in done.stderr
    assert all(ASKING.search(call) for call in calls)


def test_where_nothing_runs_it_says_so(tmp_path):
    done, calls = update(tmp_path, running="")
    assert done.returncode == 1
    assert done.stderr == "Nothing runs that could be exchanged: start it with up.\n"
    assert all(ASKING.search(call) for call in calls)


def test_a_tag_is_not_taken_for_the_end_of_another(tmp_path):
    done, _ = update(tmp_path, running="12")
    assert done.returncode == 0, done.stderr
