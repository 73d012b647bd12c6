"""`make screenshots`: the picture of docs/pictures, taken from a real run. Look at it.

    python -m deploy.live.tests.screenshots [--to docs/pictures]

The demo plays; meanwhile a browser looks at it.
"""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from deploy.demo import SHORT, Demo
from deploy.demo_report import OUTAGE, Part
from deploy.live.tests.browser import INSTALL, browser, missing
from deploy.plan import ROOT

# Seconds to wait for a page to be what it is photographed for; then it is taken as it is.
PATIENCE = 30.0
WIDE = (1400, 900)
PICTURE = "two-in-an-outage.png"


def main() -> int:
    """Take it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.live.tests.screenshots")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "pictures")
    folder = parser.parse_args().to
    if lacking := missing():
        print(f"{lacking} is not installed here; {INSTALL}", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    # What a stack takes of the caller's environment must not make it another one.
    os.environ.pop("DEBUG", None)
    (folder / PICTURE).unlink(missing_ok=True)  # a thread that fails must not leave the old one
    Photographed(folder).run()
    if not (folder / PICTURE).exists():
        print("no picture was taken: see above", file=sys.stderr)
        return 1
    print(f"{folder / PICTURE}  {(folder / PICTURE).stat().st_size // 1024} kB")
    return 0


class Photographed(Demo):
    """The demo in its short form, with a photographer at its turns."""

    def __init__(self, folder: Path) -> None:
        console = Console(highlight=False, soft_wrap=True)
        super().__init__(console, SHORT, ("uwsgi-prefork", "asgi-hold"))
        self._folder = folder

    def _part(self, name: str, seconds: float) -> Part:
        """Look on, then until the pictures are taken that belong to the end of a part."""
        part = super()._part(name, seconds)
        turn = threading.Thread(target=self._take, args=(name,), daemon=True)
        turn.start()
        self._look_on(part, turn.is_alive)
        return part

    def _take(self, name: str) -> None:
        """Take the README's first picture: two deployments in an outage."""
        if name != OUTAGE:
            return
        with browser(*WIDE) as driver:
            driver.get(self.address)
            _until(lambda: driver.find_elements("css selector", "[data-carrier]"))
            time.sleep(2)  # the dots must have found their places
            driver.find_element("id", "stacks").screenshot(str(self._folder / PICTURE))


def _until(look: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not look() and time.monotonic() < end:
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
