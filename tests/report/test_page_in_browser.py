"""The page as a real browser shows it, opened from a disk."""

import shutil
import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Literal

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from sae.config.methods import all_kinds
from sae.core.table import Cell, Column, Table
from sae.report.content import Lead, Report, section
from sae.report.page import write_page
from tests.report.browsing import DESK, Opened, boxes
from tests.reports import COMMAND, HOSTILE, small_report

pytestmark = pytest.mark.long

PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("report") / "index.html"
    write_page(small_report(), path)
    return path.as_uri()


@pytest.fixture(scope="module")
def opened(browser: Browser, address: str) -> Iterator[Opened]:
    """At a desk, in the light; for tests that leave it as it was."""
    opened = Opened(browser, address, viewport=DESK, color_scheme="light")
    yield opened
    opened.page.close()


@pytest.fixture
def desk(opened: Opened) -> Iterator[Page]:
    yield opened.page
    follow_system(opened.page, "light")


@pytest.fixture
def phone(browser: Browser, address: str) -> Iterator[Page]:
    page = Opened(browser, address, viewport=PHONE).page
    yield page
    page.close()


def follow_system(page: Page, scheme: Literal["light", "dark"]) -> None:
    page.emulate_media(media="screen", color_scheme=scheme)
    page.wait_for_selector(f"html[data-theme={scheme}]")


def text_colour(page: Page) -> str:
    """Of a number at an axis."""
    label = page.locator(".role-axis-label text").first
    colour: str = label.evaluate("text => getComputedStyle(text).fill")
    return colour


def rows(page: Page, name: str = "front") -> list[str]:
    """FLOPs of the visible rows."""
    cells: list[str] = page.locator(f"#table-{name} tbody td:nth-child(3)").evaluate_all(
        "cells => cells.filter(cell => cell.offsetParent).map(cell => cell.textContent)"
    )
    return cells


def flops(*order: int) -> list[str]:
    return [f"{1000 * (row + 1):,}" for row in order]


def test_it_asks_for_nothing_but_itself_and_complains_of_nothing(opened: Opened, address: str) -> None:
    assert opened.requests == [address]
    assert opened.complaints == []


def test_a_complaint_would_be_seen(browser: Browser, address: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    page_text = small_report_text(address).replace('"type":"line"', '"type":"nonsense"')
    broken.write_text(page_text.replace("</header>", '<img src="https://example.org/x.png"></header>'))
    opened = Opened(browser, broken.as_uri())
    assert sorted("Content Security Policy" in complaint for complaint in opened.complaints) == [False, True]
    assert opened.page.locator(".panel.failed").count() == 1
    opened.page.close()


def small_report_text(address: str) -> str:
    return Path(address.removeprefix("file://")).read_text(encoding="utf-8")


def test_every_panel_is_drawn(desk: Page) -> None:
    assert desk.locator(".panel svg").count() == desk.locator(".panel").count() == 3
    for box in boxes(desk.locator(".panel svg")):
        assert box["width"] > 200
        assert box["height"] > 100
    num_marks = [panel.locator(".role-mark path").count() for panel in desk.locator(".panel").all()]
    assert num_marks == [len(all_kinds()) + 1, 1, 6]


def test_panels_of_a_figure_are_side_by_side_and_fill_the_width(desk: Page) -> None:
    first, second = boxes(desk.locator("#figure-search-quality .panel svg"))
    assert first["top"] == second["top"]
    figure = boxes(desk.locator("#figure-search-quality"))[0]
    assert second["right"] - first["left"] == pytest.approx(figure["width"], abs=8)


def test_hovering_a_mark_shows_its_command_and_a_click_keeps_it(desk: Page) -> None:
    mark = desk.locator("#figure-search-quality .layer_0_marks path").nth(4)
    mark.hover()
    tooltip = desk.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert COMMAND in tooltip.inner_text()
    assert boxes(tooltip)[0]["width"] <= 400
    mark.click()
    desk.mouse.move(0, 0)
    assert COMMAND in desk.locator(".pinned").inner_text()
    desk.keyboard.press("Escape")
    assert desk.locator(".pinned").count() == 0


def test_a_heading_sorts_the_best_first_then_turns_then_restores(desk: Page) -> None:
    receipt = [0, 1, 2]  # scores 0, none, 2/3
    heading = desk.locator("#table-receipt th").nth(1)
    seen = []
    for _ in range(3):
        heading.locator("button").click()
        seen.append((heading.get_attribute("aria-sort"), rows(desk, "receipt")))
    assert seen == [
        ("descending", flops(2, 0, 1)),
        ("ascending", flops(0, 2, 1)),
        ("none", flops(*receipt)),
    ]


def test_numbers_are_sorted_as_numbers_by_the_keyboard(desk: Page) -> None:
    heading = desk.locator("#table-front th").nth(2)
    heading.locator("button").focus()
    desk.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    desk.keyboard.press("Enter")
    assert rows(desk) == flops(*range(19, 9, -1))
    desk.keyboard.press("Enter")
    assert rows(desk) == flops(*range(10))


def test_a_long_table_is_short_until_asked_and_whole_in_print(desk: Page) -> None:
    more = desk.get_by_role("button", name="Show all 20 rows")
    assert len(rows(desk)) == 10
    more.click()
    assert len(rows(desk)) == 20
    desk.get_by_role("button", name="Show fewer").click()
    assert len(rows(desk)) == 10
    desk.emulate_media(media="print")
    assert len(rows(desk)) == 20
    assert not more.is_visible()


def test_the_header_of_a_table_is_printed_on_each_of_its_pages(browser: Browser, tmp_path: Path) -> None:
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is needed: apt install poppler-utils")
    columns = (Column("Trial"), Column("Seconds"))
    table = Table("long", "Many rows", "", columns, tuple((Cell(f"sae/{number}"), Cell(1)) for number in range(200)))
    report = Report("Long", (), Lead("Look.", (), None, ()), (section("all", "All", "", table),))
    write_page(report, tmp_path / "long.html")
    page = Opened(browser, (tmp_path / "long.html").as_uri()).page
    page.pdf(path=tmp_path / "long.pdf", format="A4", prefer_css_page_size=True)
    page.close()
    command = ["pdftotext", "-layout", str(tmp_path / "long.pdf"), "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pages = [one for one in text.split("\f") if "sae/" in one]
    assert len(pages) > 2
    assert all(one.split().count("Seconds") == 1 for one in pages)


def test_the_dark_is_the_system_s_until_somebody_chooses_and_print_is_light(desk: Page) -> None:
    def look() -> tuple[str, str]:
        return str(desk.evaluate("getComputedStyle(document.body).backgroundColor")), text_colour(desk)

    light = look()
    follow_system(desk, "dark")
    dark = look()
    assert light == ("rgb(255, 255, 255)", "rgb(87, 96, 106)")
    assert dark == ("rgb(21, 23, 26)", "rgb(162, 168, 176)")
    desk.emulate_media(media="print", color_scheme="dark")
    assert look() == light
    desk.emulate_media(media="screen", color_scheme="dark")
    desk.get_by_role("button", name="Switch between light and dark").click()
    assert look() == light
    desk.reload()
    assert desk.locator("html").get_attribute("data-theme") == "light"
    desk.evaluate("localStorage.clear()")
    desk.wait_for_selector("html[data-drawn]")


def test_colours_of_marks_change_in_the_dark_but_not_on_cells(desk: Page) -> None:
    def fills(figure: str, mark: str) -> set[str]:
        marks = desk.locator(f"#figure-{figure} {mark}")
        return set(marks.evaluate_all("all => all.map(one => getComputedStyle(one).fill)"))

    light = fills("search-quality", ".layer_0_marks path"), fills("grid", ".role-mark path, .role-mark text")
    follow_system(desk, "dark")
    dark = fills("search-quality", ".layer_0_marks path"), fills("grid", ".role-mark path, .role-mark text")
    assert len(light[0]) == len({kind.colour for kind in all_kinds().values()})
    assert light[0].isdisjoint(dark[0])
    assert light[1] == dark[1]


def test_a_phone_shows_panels_below_one_another_and_never_scrolls_sideways(phone: Page) -> None:
    first, second = boxes(phone.locator("#figure-search-quality .panel svg"))
    assert second["top"] >= first["bottom"]
    assert phone.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    scroll = phone.locator("#table-front .scroll")
    assert scroll.evaluate("box => box.scrollWidth > box.clientWidth")
    scroll.evaluate("box => { box.scrollLeft = 150; }")
    name = phone.locator("#table-front tbody td").first
    assert boxes(name)[0]["left"] == boxes(scroll)[0]["left"]


def test_a_table_that_goes_on_has_a_shadow_at_its_edge_until_its_end(phone: Page) -> None:
    scroll = phone.locator("#table-front .scroll")

    def edge() -> float:
        """How much darker than paper it is two pixels from the end, above the text of the heading."""
        picture = Image.open(BytesIO(scroll.screenshot())).convert("L")
        return 255 - picture.crop((picture.width - 2, 4, picture.width - 1, 5)).getextrema()[0]  # type: ignore[operator]

    assert edge() > 20
    scroll.evaluate("box => { box.scrollLeft = box.scrollWidth; }")
    assert edge() < 5


def test_the_glossary_is_folded_away_until_asked_for_and_open_in_print(desk: Page) -> None:
    desk.emulate_media(media="screen")
    meaning = desk.get_by_text("How many inputs there are.")
    assert not meaning.is_visible()
    desk.emulate_media(media="print")
    meaning.wait_for(state="visible")
    desk.emulate_media(media="screen")
    meaning.wait_for(state="hidden")
    desk.locator("#lead").get_by_role("link", name="Glossary").click()
    meaning.wait_for(state="visible")
    assert desk.locator(".words dt").all_inner_texts() == ["N", f"K {HOSTILE}"]
    desk.emulate_media(media="print")
    desk.emulate_media(media="screen")
    assert meaning.is_visible()
    desk.locator("summary").click()
    meaning.wait_for(state="hidden")


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_figure_is_saved_as_it_is_seen(desk: Page, kind: str) -> None:
    with desk.expect_download() as download:
        desk.locator(f"#figure-search-quality .save[data-format={kind}]").click()
    assert download.value.suggested_filename == f"search-quality.{kind}"
    content = Path(download.value.path()).read_bytes()
    if kind == "svg":
        assert b"var(" not in content
        assert content.count(b"<svg") == 3
        assert b"#c55a11" in content.lower()
    else:
        assert content.startswith(b"\x89PNG")


def test_a_command_is_copied(desk: Page) -> None:
    desk.context.grant_permissions(["clipboard-read", "clipboard-write"])
    desk.locator(".copy").first.click()
    desk.get_by_role("button", name="Copied").wait_for()
    assert desk.evaluate("navigator.clipboard.readText()") == COMMAND


def test_names_from_outside_are_shown_not_run(desk: Page) -> None:
    assert desk.title() == f"pneumonia {HOSTILE}"
    assert desk.locator("h1").inner_text() == f"pneumonia {HOSTILE}"
    assert desk.locator("b").count() == 0
    assert HOSTILE in str(desk.locator("#figure-grid .role-title-text").text_content())


def test_without_scripts_everything_but_figures_can_be_read(browser: Browser, address: str) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(address)
    assert page.locator("#table-front tbody tr").filter(visible=True).count() == 20
    assert page.locator("#figure-grid noscript").inner_text().startswith("This figure needs JavaScript")
    assert page.get_by_role("button", name="Copy").count() == 0
    page.close()
