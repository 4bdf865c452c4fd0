"""A page in a real browser, with what it asked for and what it complained of."""

import os
import shutil
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
DESK = {"width": 1280, "height": 900}


def find_chromium() -> str | None:
    return os.environ.get("SAE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Opened:
    """A page with what it asked for and what it complained of."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self.page: Page = browser.new_page(**options)
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._hear)
        self.page.goto(address)
        self.page.wait_for_selector("html[data-drawn]")

    def _hear(self, message: ConsoleMessage) -> None:
        """Vega-Lite's warnings are about how it understands a chart, not about what is seen."""
        if message.type == "error":
            self.complaints.append(message.text)


def boxes(locator: Locator) -> list[dict[str, float]]:
    found: list[dict[str, float]] = locator.evaluate_all("all => all.map(one => one.getBoundingClientRect().toJSON())")
    return found
