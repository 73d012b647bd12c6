"""Loaded by each Python under a shifted clock: replaces `time.sleep`, which libfaketime breaks.

Since Python 3.11 it waits for an instant of the monotonic clock. libfaketime (0.9.10) answers that
with EINVAL where it is told to leave this clock alone.
"""

import select
import time


def sleep(seconds: float) -> None:
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select([], [], [], seconds)


time.sleep = sleep  # type: ignore[assignment] # nobody sleeps for an object with __index__
