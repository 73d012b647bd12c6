"""A process under a shifted clock: its wall clock is wrong, and what it waits for is not."""

import json
import os
import subprocess
import sys
import time

import pytest

from deploy.tests.fixtures import absent
from loadtests.faults.clocks import ClockMissingError, shifted_by

SLEPT = 0.2
SCRIPT = f"""
import json, threading, time
begun = time.monotonic()
time.sleep({SLEPT})
threading.Event().wait({SLEPT})
print(json.dumps([time.time(), time.monotonic() - begun]))
"""


@pytest.mark.parametrize("shift", [-30.0, 30.0])
def test_only_the_wall_clock_is_shifted(shift: float) -> None:
    try:
        env = shifted_by(shift)
    except ClockMissingError as missing:
        absent("libfaketime", str(missing))
    line = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(
        line, env={**os.environ, **env}, capture_output=True, text=True, timeout=30, check=True
    )
    now, waited = json.loads(done.stdout)
    assert abs(now - shift - time.time()) < 10
    assert 2 * SLEPT <= waited < 10
