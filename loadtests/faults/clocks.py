"""Processes under a wall clock that is wrong, by libfaketime (Debian's package `faketime`)."""

import glob
from pathlib import Path

SITE = Path(__file__).parent / "shifted"
LIBRARIES = "/usr/lib/*/faketime/libfaketimeMT.so.1"


class ClockMissingError(RuntimeError):
    """The library is not installed: the run is missing from the report, with this reason."""


def shifted_by(seconds: float) -> dict[str, str]:
    """Return the environment of a process whose wall clock is so much before the true one.

    Its monotonic clock, by which time-outs and intervals go, is the true one.

    Raises:
        ClockMissingError: there is no libfaketime here.
    """
    found = glob.glob(LIBRARIES)
    if not found:
        raise ClockMissingError("no libfaketime; install: apt-get install faketime")
    return {
        "LD_PRELOAD": found[0],
        "FAKETIME": f"{seconds:+g}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "PYTHONPATH": str(SITE),
    }
