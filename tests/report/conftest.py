import os
from collections.abc import Iterator

import pytest
from altair.utils.schemapi import disable_debug_mode
from playwright.sync_api import Browser, sync_playwright

from tests.report.browsing import NAMES, find_chromium

disable_debug_mode()  # `to_dict` checks a chart with all its parts; to check each part when it is made takes longest


@pytest.fixture(scope="package")
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
