"""`make screenshots`: the pictures of docs/pictures, taken from a real run. Look at each one.

    python -m deploy.live.screenshots [--to docs/pictures]

The demo plays; meanwhile a browser looks at it, at a parcel and at the report.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import requests
from rich.console import Console
from selenium.webdriver import Chrome

from deploy.demo import SHORT, Demo
from deploy.demo_report import write_report
from deploy.live.browser import INSTALL, browser, missing, picture
from deploy.plan import ROOT
from deploy.stack import Stack

# Seconds to wait for a page to be what it is photographed for; then it is taken as it is.
PATIENCE = 30.0
WIDE = (1400, 900)
PHONE = (390, 844)
# A shipping method of Lantern Freight, which neither dedups nor can be asked.
DOUBTFUL = 30


def main() -> int:
    """Take all pictures; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.live.screenshots")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "pictures")
    folder = parser.parse_args().to
    if lacking := missing():
        print(f"{lacking} is not installed here; {INSTALL}", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    # What a stack takes of the caller's environment must not make it another one.
    os.environ.pop("DEBUG", None)
    asyncio.run(_play(folder))
    for path in sorted(folder.glob("*.png")):
        print(f"{path}  {path.stat().st_size // 1024} kB")
    return 0


async def _play(folder: Path) -> None:
    demo = Photographed(folder)
    parts = await demo.run()
    with TemporaryDirectory() as temporary:
        report = write_report(Path(temporary), parts, demo.history)
        await asyncio.to_thread(_report, report, folder)


class Photographed(Demo):
    """The demo in its short form, with a photographer at its turns."""

    def __init__(self, folder: Path) -> None:
        console = Console(highlight=False, soft_wrap=True)
        super().__init__(console, SHORT, ("uwsgi-prefork", "asgi-hold"))
        self._folder = folder

    async def at_turn(self, name: str, stacks: list[Stack]) -> None:
        """Take the pictures that belong to the end of a part."""
        if name == "healthy":
            await asyncio.to_thread(_ask_for_a_doubt, stacks[-1])
            await asyncio.to_thread(_live, self.address, self._folder / "live-healthy.png")
        elif name == "outage":
            await asyncio.to_thread(_outage, self.address, self._folder)
            dark = self._folder / "live-outage-dark.png"
            await asyncio.to_thread(_live, self.address, dark, dark=True)
            await asyncio.to_thread(_phone, self.address, self._folder / "live-phone-dark.png")
        elif name == "recovery":
            await asyncio.to_thread(_operator, stacks[-1], self._folder)


def _until(look: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not look() and time.monotonic() < end:
        time.sleep(0.1)


def _open(driver: Chrome, address: str) -> None:
    driver.get(address)
    _until(lambda: driver.find_elements("css selector", ".carrier"))
    time.sleep(2)  # the dots must have found their places


def _live(address: str, target: Path, *, dark: bool = False) -> None:
    with browser(*WIDE, dark=dark) as driver:
        _open(driver, address)
        picture(driver, target)


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


def _ask_for_a_doubt(stack: Stack) -> None:
    """Create a parcel whose carrier books and hangs up, and can't be asked: it will be parked."""
    parcel = {
        "name": "Ada Example",
        "company_name": "SIM:RESET_AFTER",
        "address": "Havenstraat 12",
        "city": "Utrecht",
        "postal_code": "3511 AB",
        "country": "NL",
        "shipment": {"id": DOUBTFUL},
        "request_label_async": True,
    }
    with requests.Session() as session:
        session.trust_env = False
        answer = session.post(
            f"{stack.base_url}/api/v2/parcels",
            json={"parcel": parcel},
            auth=(stack.public_key, stack.secret_key),
            timeout=PATIENCE,
        )
    answer.raise_for_status()


def _operator(stack: Stack, folder: Path) -> None:
    """Log in as the demo's operator; look at the list, the newest label, and what is parked."""
    with browser(*WIDE) as driver:
        driver.get(f"{stack.base_url}/operator/parcels?status=1000")
        for name, value in (("username", "ADMIN_USER"), ("password", "ADMIN_PASSWORD")):
            driver.find_element("name", name).send_keys(stack.accounts[value])
        driver.find_element("css selector", "[type=submit]").click()
        picture(driver, folder / "parcels.png", whole=False)
        driver.find_element("css selector", "tbody a").click()
        picture(driver, folder / "parcel.png")
        _until(lambda: _parked(driver, stack))
        picture(driver, folder / "parked.png", whole=False)


def _parked(driver: Chrome, stack: Stack) -> list[Any]:
    driver.get(f"{stack.base_url}/operator/parked")
    return list(driver.find_elements("css selector", ".parked"))


def _report(report: Path, folder: Path) -> None:
    with browser(*WIDE) as driver:
        driver.get(report.resolve().as_uri())
        picture(driver, folder / "report.png")


if __name__ == "__main__":
    sys.exit(main())
