"""The system's Chromium, headless and by itself: it speaks to nobody but our page."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from selenium.webdriver import Chrome, ChromeOptions, ChromeService

INSTALL = "apt-get install chromium chromium-driver  |  brew install --cask chromium chromedriver"
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # root has none
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--hide-scrollbars",
)


def missing() -> str:
    """Return which program a browser test lacks; empty when none."""
    return next((name for name in ("chromium", "chromedriver") if not shutil.which(name)), "")


@contextmanager
def browser(width: int = 1400, height: int = 900, *, dark: bool = False) -> Iterator[Chrome]:
    """Start a browser with an empty profile; end it and remove the profile."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    with TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        for option in (*OPTIONS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(option)
        driver = Chrome(options, ChromeService(shutil.which("chromedriver")))
        try:
            # The window itself is never narrower than 500 pixels: a phone has to be emulated.
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
            yield driver
        finally:
            driver.quit()
