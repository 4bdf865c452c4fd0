"""The report of a whole study as a real browser shows it, opened from a disk."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from sae.records.study import StudyRecord
from sae.report.build import report_of
from sae.report.commands import train_command
from sae.report.content import Report
from sae.report.findings import find
from sae.report.page import write_page
from tests.report.browsing import DESK, Opened, boxes
from tests.study_stages import whole_study

pytestmark = pytest.mark.long

PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole")


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    report = report_of([whole_study(folder / "study").record])
    write_page(report, folder / "report.html")
    return report


@pytest.fixture(scope="module", params=[DESK, PHONE], ids=["desk", "phone"])
def opened(request: pytest.FixtureRequest, browser: Browser, folder: Path, report: Report) -> Iterator[Opened]:
    del report
    opened = Opened(browser, (folder / "report.html").as_uri(), viewport=request.param)
    yield opened
    opened.page.close()


@pytest.fixture
def page(opened: Opened) -> Page:
    opened.page.mouse.move(0, 0)
    return opened.page


def test_it_asks_for_nothing_but_itself_and_complains_of_nothing(opened: Opened, folder: Path) -> None:
    assert opened.requests == [(folder / "report.html").as_uri()]
    assert opened.complaints == []


def test_every_figure_is_drawn(page: Page, report: Report) -> None:
    for figure in report.figures():
        panels = page.locator(f"#figure-{figure.name} .panel svg")
        assert panels.count() == len(figure.panels), figure.name
        assert all(box["width"] > 200 and box["height"] > 80 for box in boxes(panels)), figure.name
        assert all(panel.locator(".role-mark path, .role-mark text").count() for panel in panels.all()), figure.name


def test_no_page_scrolls_sideways(page: Page) -> None:
    assert page.viewport_size is not None
    assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"]


def test_the_receipt_is_seen_as_a_whole(page: Page, report: Report) -> None:
    assert report.lead.receipt is not None
    assert len(report.lead.receipt.columns) == 4
    scroll = page.locator("#table-receipt .scroll")
    assert scroll.evaluate("box => box.scrollWidth <= box.clientWidth")
    right = boxes(scroll)[0]["right"]
    for cell in page.locator("#table-receipt td > div").all():
        assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth + 1")
        assert boxes(cell)[0]["right"] <= right


def test_no_text_of_a_chart_is_cut_off(page: Page) -> None:
    for name in ("risk-coverage", "depth"):
        for panel in page.locator(f"#figure-{name} .panel svg").all():
            outer = boxes(panel)[0]
            for box in boxes(panel.locator("text")):
                assert box["bottom"] <= outer["bottom"], name
                assert box["right"] <= outer["right"] + 1, name


def test_numbers_at_the_axis_of_coverage_do_not_touch(page: Page) -> None:
    labels = boxes(page.locator("#figure-risk-coverage .role-axis-label").first.locator("text"))
    for left, right in itertools.pairwise(sorted(labels, key=lambda box: box["left"])):
        assert right["left"] > left["right"] + 2


def tooltip_at(page: Page, mark: Locator) -> str:
    """What is told where the middle of a mark is, whatever lies on it."""
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for(timeout=3000)
    return tooltip.inner_text()


def points(panel: Locator) -> Locator:
    """Of a scatter: the ring of the pick comes after them."""
    return panel.locator(".mark-symbol.role-mark").first.locator("path")


@pytest.mark.parametrize("figure", ["search", "confirmed-quality"])
def test_hovering_the_ringed_pick_shows_its_command(page: Page, folder: Path, figure: str) -> None:
    found = find(StudyRecord.open(folder / "study"))
    assert found.pick is not None
    trial = next(item for item in found.candidates if item.network == found.pick.network)
    config = trial.config if figure == "search" else found.shown["pick"].config
    for panel in page.locator(f"#figure-{figure} .panel").all():
        text = tooltip_at(page, points(panel).last)  # the pick is drawn last
        assert found.pick.label in text
        assert train_command(config) in text
        page.mouse.move(0, 0)


def test_hovering_any_point_of_the_search_shows_a_command(page: Page) -> None:
    marks = points(page.locator("#figure-search .panel").first)
    assert marks.count() == 19
    assert "sae train --data digits" in tooltip_at(page, marks.first)


def test_the_trials_are_sorted_by_a_click(page: Page) -> None:
    page.evaluate("document.getElementById('all-trials').open = true")
    heading = page.locator("#table-trials th").filter(has_text="NLL")
    column = 1 + int(heading.evaluate("heading => heading.cellIndex"))

    def values() -> list[float]:
        cells = page.locator(f"#table-trials tbody td:nth-child({column})[data-value]")
        found: list[float] = cells.evaluate_all("all => all.map(cell => Number(cell.dataset.value))")
        return found

    given = values()
    heading.locator("button").click()
    assert values() == sorted(given) != given
    heading.locator("button").click()
    assert values() == sorted(given, reverse=True)
    heading.locator("button").click()
    assert values() == given


def test_the_recommendation_comes_first(page: Page, report: Report) -> None:
    assert page.locator("#lead .sentence").first.inner_text() == report.lead.sentence
    assert boxes(page.locator("#lead"))[0]["top"] < boxes(page.locator("#search"))[0]["top"]


def test_metrics_come_first_on_a_phone(page: Page) -> None:
    assert page.viewport_size is not None
    second = page.locator("#table-front th").nth(1)
    assert second.locator(".better").count() == (page.viewport_size["width"] == PHONE["width"])


def test_headings_of_columns_are_explained(page: Page) -> None:
    title = page.locator("#table-front th button").filter(has_text="NLL").get_attribute("title")
    assert title is not None
    assert "log-likelihood" in title
    assert "Lower is better" in title


def test_folded_parts_are_open_in_print_and_closed_after_it(page: Page) -> None:
    closed = "[...document.querySelectorAll('.researchers details')].filter(one => !one.open).length"
    before = page.evaluate(closed)
    assert before > 0
    page.emulate_media(media="print")
    page.wait_for_function(f"{closed} === 0")
    assert page.locator("#table-ranks").is_visible()
    assert not page.locator(".picker form").is_visible()
    page.emulate_media(media="screen")
    page.wait_for_function(f"{closed} === {before}")
