"""Black box: the demo's short form, as CI shows it."""

import os
import subprocess
import sys

import pytest

from deploy import strategy as strategies
from deploy.demo import STRATEGIES
from deploy.plan import ROOT
from deploy.tests.fixtures import absent

# Alone: its outage is as long as a busy machine needs for one answer.
pytestmark = [pytest.mark.deployment, pytest.mark.alone]

# 35 s of demo, two starts of everything, and a warm-up.
SECONDS = 240


def seconds(text):
    number, unit = text.split()
    return float(number) / (1000 if unit == "ms" else 1)


def test_the_demo_shows_one_deployment_stuck_and_the_other_not(tmp_path):
    for name in STRATEGIES:
        if lacking := strategies.why_unavailable(strategies.load(name)):
            absent(name, lacking)
    done = subprocess.run(
        [sys.executable, "-m", "deploy.demo", "--short", "--report", str(tmp_path)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "DEBUG"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\033" not in done.stdout
    turns = (
        "All carriers are well",
        "colibri hangs",
        f"{STRATEGIES[1]}: the breaker of colibri opens",
        "colibri answers again",
    )
    places = [done.stdout.find(turn) for turn in turns]
    assert -1 not in places
    assert places == sorted(places)
    lines = (tmp_path / "report.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    canary = {(row[0], row[1]): row[6:8] for row in rows if len(row) > 8}
    prefork, hold = (canary["outage", name] for name in STRATEGIES)
    # Against each other, since both ran on the same machine in the same seconds.
    assert seconds(prefork[1]) > 2 * seconds(hold[0])
    assert f"{STRATEGIES[0]}: another page now takes over 2 s" in done.stdout


@pytest.mark.parametrize(
    ("first", "said"),
    [("magic", "there is no strategy 'magic'"), ("asgi-hold", "it compares two strategies")],
)
def test_what_is_missing_is_said_before_anything_starts(first, said):
    done = subprocess.run(
        [sys.executable, "-m", "deploy.demo", "--strategies", first, "asgi-hold"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert said in done.stderr
