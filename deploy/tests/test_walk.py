"""What one synchronous label walks through in our own code: counted, printed, bounded."""

import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from deploy.plan import ROOT
from deploy.tests.waiting import until
from parcels.tests.stacks import running

pytestmark = [pytest.mark.deployment, pytest.mark.timeout(240)]
# What it takes today: files, their lines, functions, their lines. A change may only lower these.
MOST = 32, 4_891, 130, 2_497
# What a busy machine adds: a second try of something, a look that else isn't due.
NOW_AND_THEN = 1.01
# Seconds: over each round of a process that has nothing to do.
IDLE = 4.0
# By their command lines.
PROCESSES = ("shipping.asgi", "celery")


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "walk"
    found.mkdir()
    return found


def stretch(folder, name):
    """End the stretch; return what web and worker called in it: {file: {function: lines}}."""
    (folder / f"mark-{name}").touch()

    def read():
        texts = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{name}-*.json"))]
        ours = [walk for walk in texts if any(each in walk[0] for each in PROCESSES)]
        return ours if len(ours) >= len(PROCESSES) else None

    calls: dict[str, dict[str, int]] = defaultdict(dict)
    for _, walk in until(read, "the files of all processes"):
        for file, function, lines in walk:
            if not file.startswith((".venv", "deploy/")):
                calls[file].setdefault(function, lines)
    return calls


def test_the_walk_of_a_label(folder):
    environment = {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent / "walk"), str(ROOT)]),
        "WALK_DIR": str(folder),
        "WALK_ROOT": str(ROOT),
        "WEB_WORKERS": "1",
        "WORKERS": "1",
    }
    with running("asgi-hold", "sqlite", **environment) as site:
        for _ in range(3):  # what is loaded and connected once
            assert site.create(shipment=8, request_label=True).status_code == 200
        time.sleep(IDLE)  # their ends: a coroutine that goes on is called again
        stretch(folder, "before")
        time.sleep(IDLE)
        idle = stretch(folder, "idle")
        assert site.create(shipment=8, request_label=True).json()["parcel"]["tracking_number"]
        calls = stretch(folder, "label")
    for file, functions in idle.items():  # rounds that go on without a label
        calls[file] = {each: n for each, n in calls[file].items() if each not in functions}
    calls = {file: functions for file, functions in calls.items() if functions}
    files = {file: len((ROOT / file).read_text().splitlines()) for file in calls}
    lines = [n for functions in calls.values() for n in functions.values()]
    counts = len(files), sum(files.values()), len(lines), sum(lines)
    for file, functions in calls.items():
        sys.stdout.write(f"{file} ({files[file]}): {', '.join(functions)}\n")
    sys.stdout.write(f"{counts}\n")
    said = "{} files of {:,} lines; {} functions of {:,}".format(*MOST)
    assert said in (ROOT / "docs" / "architecture.md").read_text()
    assert all(count <= most * NOW_AND_THEN for count, most in zip(counts, MOST, strict=True)), (
        counts
    )
