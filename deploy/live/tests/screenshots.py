"""`make screenshots`: the pictures of docs/pictures, taken from a real run. Look at each one.

    python -m deploy.live.tests.screenshots [--to docs/pictures]

The demo plays; meanwhile a browser looks at it and at a parcel.
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
from selenium.webdriver import Chrome

from deploy.demo import SHORT, Demo
from deploy.demo_report import Part
from deploy.live.tests.browser import INSTALL, browser, missing, picture
from deploy.plan import ROOT
from deploy.stack import Stack

# Seconds to wait for a page to be what it is photographed for; then it is taken as it is.
PATIENCE = 30.0
WIDE = (1400, 900)
PHONE = (390, 844)


def main() -> int:
    """Take all pictures; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.live.tests.screenshots")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "pictures")
    folder = parser.parse_args().to
    if lacking := missing():
        print(f"{lacking} is not installed here; {INSTALL}", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    # What a stack takes of the caller's environment must not make it another one.
    os.environ.pop("DEBUG", None)
    Photographed(folder).run()
    for path in sorted(folder.glob("*.png")):
        print(f"{path}  {path.stat().st_size // 1024} kB")
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
        if name == "outage":
            _outage(self.address, self._folder)
            _phone(self.address, self._folder / "live-phone-dark.png")
        elif name == "recovery":
            _operator(self.stack, self._folder)


def _until(look: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not look() and time.monotonic() < end:
        time.sleep(0.1)


def _open(driver: Chrome, address: str) -> None:
    driver.get(address)
    _until(lambda: driver.find_elements("css selector", "[data-carrier]"))
    time.sleep(2)  # the dots must have found their places


def _outage(address: str, folder: Path) -> None:
    """Take the whole page, and the two deployments alone: the README's first picture."""
    with browser(*WIDE) as driver:
        _open(driver, address)
        picture(driver, folder / "live-outage.png")
        driver.find_element("id", "stacks").screenshot(str(folder / "two-in-an-outage.png"))


def _phone(address: str, target: Path) -> None:
    with browser(*PHONE, dark=True) as driver:
        _open(driver, address)
        picture(driver, target)


def _operator(stack: Stack, folder: Path) -> None:
    """Log in as the demo's operator and look at the newest label."""
    with browser(*WIDE) as driver:
        driver.get(f"{stack.base_url}/operator/parcels?status=1000")
        for name, value in (("username", "ADMIN_USER"), ("password", "ADMIN_PASSWORD")):
            driver.find_element("name", name).send_keys(stack.accounts[value])
        driver.find_element("css selector", "[type=submit]").click()
        driver.find_element("css selector", "tbody a").click()
        picture(driver, folder / "parcel.png")


if __name__ == "__main__":
    sys.exit(main())
