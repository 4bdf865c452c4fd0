import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.report.browsing import NAMES, find_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        reason = f"a real browser is needed: install one of {', '.join(NAMES)}, or name one in SAE_CHROMIUM"
        pytest.fail(reason) if os.environ.get("CI_BROWSER") == "required" else pytest.skip(reason)
    with sync_playwright() as playwright:
        as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=as_root)
        yield browser
        browser.close()
