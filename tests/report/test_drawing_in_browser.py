"""A drawing of a network as a real browser shows it, on a page and as a file."""

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from sae.report.content import Drawing, Lead, Report, Section
from sae.report.figures.network import draw_file
from sae.report.page import write_page
from tests.networks import sae_plan
from tests.report.browsing import Opened, boxes

pytestmark = pytest.mark.long

PHONE = {"width": 360, "height": 740}
TEXT = "all => getComputedStyle(all).fill"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("drawing") / "index.html"
    drawing = Drawing("network", "The network", "Costs.", sae_plan(4, 1))
    write_page(Report("A network", (), Lead("It."), (Section("network", "Network", "This.", (drawing,)),)), path)
    return path.as_uri()


@pytest.mark.parametrize(("scheme", "ink"), [("light", "rgb(31, 35, 40)"), ("dark", "rgb(230, 231, 233)")])
def test_it_fits_a_phone_in_the_colours_of_the_page(
    browser: Browser, address: str, scheme: Literal["light", "dark"], ink: str
) -> None:
    opened = Opened(browser, address, viewport=PHONE, color_scheme=scheme)
    (box,) = boxes(opened.page.locator(".drawing > svg"))
    assert 0 <= box["left"] <= box["right"] <= PHONE["width"]
    assert opened.page.locator(".drawing text[font-weight]").first.evaluate(TEXT) == ink
    sizes = [one["height"] for one in boxes(opened.page.locator(".drawing text"))]
    assert min(sizes) > 9  # pixels that a line of text takes
    assert opened.complaints == []
    opened.page.close()


def test_it_is_saved_with_the_colours_on_screen(browser: Browser, address: str, tmp_path: Path) -> None:
    opened = Opened(browser, address, viewport=PHONE, color_scheme="dark")
    with opened.page.expect_download() as saved:
        opened.page.locator(".drawing .save[data-format=svg]").click()
    saved.value.save_as(tmp_path / "network.svg")
    text = (tmp_path / "network.svg").read_text()
    assert saved.value.suggested_filename == "network.svg"
    assert "#e6e7e9" in text
    assert "var(" not in text
    opened.page.close()


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(21, 23, 26)")])
def test_a_file_follows_the_browser(
    browser: Browser, tmp_path: Path, scheme: Literal["light", "dark"], paper: str
) -> None:
    path = tmp_path / "net.svg"
    path.write_text(draw_file(sae_plan(2, 2)), encoding="utf-8")
    page = browser.new_page(color_scheme=scheme)
    page.goto(path.as_uri())
    assert page.locator("rect").first.evaluate(TEXT) == paper
    page.close()
