"""A reader's own limits on the page in a real browser: the picks of `sae pick`, linked figures, and the address."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from sae.analysis.bootstrap import compare_samples
from sae.analysis.evidence import read_predictions
from sae.analysis.selection import preferred, select
from sae.core.errors import NothingFoundError
from sae.records.study import StudyRecord
from sae.report.build import report_of
from sae.report.findings import find
from sae.report.labels import network_key
from sae.report.page import write_page
from tests.report.browsing import DESK, Opened, boxes
from tests.studies import StudyBuilder, point, sae
from tests.study_stages import confirm, confirmed_study, dress, keep_predictions

pytestmark = pytest.mark.long


def many_trials(path: Path) -> StudyBuilder:
    """Forty trials with values at random, some far out and some equal; nine in ten are confirmed."""
    study, random_ = StudyBuilder(path, methods=("sae", "standard", "ensemble")), random.Random(0)

    def values() -> dict[str, float]:
        nll = random_.choice([random_.uniform(0.05, 1.0), random_.uniform(0.05, 1.0), random_.uniform(1.0, 30.0), 0.25])
        return point(nll, random_.uniform(0.01, 0.2), random_.randrange(900, 400_000))

    for _ in range(24):
        study.finish(sae(random_.randint(1, 3), random_.randint(1, 3)), [values() for _ in range(3)])
    for _ in range(8):
        study.finish({"name": "standard"}, [values()])
        study.finish({"name": "ensemble", "members": 3}, [values()])
    study.finish({"name": "standard"}, [point(0.25, 0.05, 5000)])
    study.finish({"name": "standard"}, [point(0.25, 0.05, 5000)])
    study.end(sae(1, 1), "failed", error="the loss was nan")
    dress(study, shift=False)
    selection = select(study.record)
    luck = {item.label: random_.uniform(-0.2, 0.2) for item in selection.everything}
    chosen = [item for item in selection.everything if not item.label.endswith("5")]
    confirm(study, chosen, seeds=(1, 2), shift=False, luck=luck)
    return study


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> StudyRecord:
    record = many_trials(tmp_path_factory.mktemp("many") / "study").record
    write_page(report_of([record]), record.path / "report.html")
    return record


@pytest.fixture(scope="module")
def opened(browser: Browser, record: StudyRecord) -> Iterator[Opened]:
    opened = Opened(browser, (record.path / "report.html").as_uri(), viewport=DESK)
    yield opened
    assert opened.complaints == []
    opened.page.close()


@pytest.fixture
def page(opened: Opened) -> Page:
    set_address(opened.page, "")
    opened.page.keyboard.press("Escape")
    opened.page.mouse.move(0, 0)
    return opened.page


def set_address(page: Page, settings: str) -> None:
    """Change the address as a reader who follows a mailed link on an open page."""
    page.evaluate(
        """hash => { history.replaceState(null, "", "#" + hash); dispatchEvent(new HashChangeEvent("hashchange")); }""",
        settings,
    )


def picked(page: Page) -> str:
    """The key of the page's pick; empty if nothing fits."""
    found = page.locator("[data-picker]").get_attribute("data-pick")
    assert found is not None
    return found


def by_python(
    record: StudyRecord, prefer: str | None = None, weights: dict[str, float] | None = None, **asked: Any
) -> str:
    try:
        selection = select(record, prefer=prefer, **asked)
    except NothingFoundError:
        return ""
    item = selection.pick(preferred(record, prefer), weights).candidate
    return network_key(item.label, item.config, item.eval_exits)


def questions(number: int) -> Iterator[dict[str, Any]]:
    """Limits, methods, weights and preferences at random; every seventh is out of reach."""
    random_ = random.Random(1)
    for index in range(number):
        maximum = {"flops": float(random_.randrange(900, 300_000))} if random_.random() < 0.6 else {}
        maximum |= {"nll": round(random_.uniform(0.05, 1.5), 4)} if random_.random() < 0.4 else {}
        maximum |= {"cc_ece": round(random_.uniform(0.01, 0.2), 4)} if random_.random() < 0.3 else {}
        minimum = {"f1": round(random_.uniform(0.5, 0.95), 4)} if random_.random() < 0.3 else {}
        methods = (
            random_.sample(["sae", "standard", "ensemble"], random_.randint(1, 2)) if random_.random() < 0.3 else None
        )
        asked: dict[str, Any] = {"maximum": maximum, "minimum": minimum, "methods": methods}
        if index % 7 == 0:
            asked["maximum"] = {"flops": 100.0}
        elif random_.random() < 0.3:
            asked["weights"] = {"nll": random_.choice([0.0, 0.5, 3.0]), "flops": random_.choice([0.5, 2.0])}
        elif random_.random() < 0.3:
            asked["prefer"] = random_.choice(["nll", "f1", "flops", "params"])
        yield asked


def address_of(asked: dict[str, Any]) -> str:
    words = [
        f"{side}.{key}={value!r}"
        for side, name in (("max", "maximum"), ("min", "minimum"), ("weight", "weights"))
        for key, value in (asked.get(name) or {}).items()
    ]
    words += [f"method={','.join(asked['methods'])}"] if asked.get("methods") else []
    words += [f"prefer={asked['prefer']}"] if asked.get("prefer") else []
    return "&".join(words)


def test_the_page_picks_what_sae_pick_picks_within_50_random_limits(page: Page, record: StudyRecord) -> None:
    asked = list(questions(50))
    expected = [by_python(record, **item) for item in asked]
    found = []
    for item in asked:
        set_address(page, address_of(item))
        found.append(picked(page))
    assert found == expected
    assert 5 < expected.count("") < 30
    assert len(set(expected)) > 10


def test_what_nothing_fits_is_said_with_the_nearest(page: Page, record: StudyRecord) -> None:
    set_address(page, "max.flops=100")
    assert picked(page) == ""
    least = min(item.values["flops"] for item in select(record).everything)
    sentence = page.locator("#lead .sentence").nth(1).inner_text()
    assert "none has FLOPs ≤ 100" in sentence
    assert f"has FLOPs {least:,.0f}" in sentence


def limit(page: Page, label: str) -> Any:
    return page.locator(".limit").filter(has_text=label)


def test_a_number_moves_the_sentence_the_receipt_and_the_commands(page: Page, record: StudyRecord) -> None:
    given = page.locator("#lead .sentence").first
    assert given.is_visible()
    limit(page, "MFLOPs").locator("input[type=number]").fill("0.03")
    expected = by_python(record, maximum={"flops": 30_000.0})
    assert picked(page) == expected
    assert not given.is_visible()
    assert expected.split("@")[0] in page.locator("#lead .sentence").nth(1).inner_text()
    assert not page.locator("#table-receipt").is_visible()
    assert expected.split("@")[0] in page.locator("#lead figure.table").nth(1).inner_text()
    lines = page.locator("#lead .command code").all_inner_texts()
    assert f"sae pick {record.path} --max flops=30000" in lines
    assert f"sae export {record.path} --max flops=30000 --out shipped/model.onnx" in lines
    page.get_by_role("button", name="Back to the study's pick").click()
    assert given.is_visible()
    assert page.locator("#table-receipt").is_visible()


def test_a_slider_is_moved_by_the_keyboard(page: Page, record: StudyRecord) -> None:
    slider = limit(page, "MFLOPs").locator("input[type=range]")
    slider.focus()
    for _ in range(30):
        page.keyboard.press("ArrowLeft")
    found = re.search(r"max\.flops=(\d+)", page.url)
    assert found is not None
    assert picked(page) == by_python(record, maximum={"flops": float(found[1])})
    page.keyboard.press("End")
    assert "max.flops" not in page.url


def test_the_address_restores_limits_weights_filters_and_the_pair(
    browser: Browser, page: Page, record: StudyRecord
) -> None:
    front = select(record).front[:2]
    pair = [network_key(item.label, item.config, item.eval_exits) for item in front]
    settings = (
        f"max.flops=200000&weight.nll=3&method=sae,standard&hide=failed&compare={quote(','.join(pair), safe=',/@')}"
    )
    fresh = Opened(browser, f"{page.url.split('#')[0]}#search&{settings}", viewport=DESK).page
    expected = by_python(record, maximum={"flops": 2e5}, weights={"nll": 3.0}, methods=["sae", "standard"])
    assert picked(fresh) == expected
    assert limit(fresh, "MFLOPs").locator("input[type=number]").input_value() == "0.2"
    assert [box.input_value() for box in fresh.locator(".pair input").all()] == pair
    assert fresh.locator("#table-trials tr.outside").filter(has_text="failed").count() == 1
    assert fresh.url.endswith(f"#search&{settings}")
    fresh.locator("nav a").filter(has_text="For researchers").click()
    assert "#for-researchers&max.flops=200000" in fresh.url
    fresh.close()


def visible_rows(page: Page, name: str) -> list[str]:
    rows: list[str] = page.locator(f"#table-{name} tr[data-key]:not(.outside)").evaluate_all(
        "all => all.map(row => row.dataset.key)"
    )
    return rows


def test_a_brush_filters_tables_and_other_figures_until_escape(page: Page) -> None:
    panels = page.locator("#figure-search .panel svg")
    panels.first.scroll_into_view_if_needed()
    plot = boxes(panels.first.locator(".mark-group.role-frame path.background").first)[0]
    everything = visible_rows(page, "trials")
    page.mouse.move(plot["x"] + plot["width"] * 0.5, plot["y"] + plot["height"] * 0.3)
    page.mouse.down()
    page.mouse.move(plot["x"] + plot["width"] * 0.98, plot["y"] + plot["height"] * 0.98, steps=6)
    page.mouse.up()
    page.locator(".brush-bar").wait_for(state="visible")
    told = int(page.locator(".brush-bar").inner_text().split()[0])
    shown = visible_rows(page, "trials")
    assert 0 < len(shown) < len(everything)
    assert told >= len(shown) - 1  # the failed trial stays: it has no place in the figure
    page.wait_for_timeout(300)
    faded = (
        panels.nth(1)
        .locator(".mark-symbol.role-mark")
        .first.locator("path")
        .evaluate_all("all => all.filter(path => Number(path.getAttribute('opacity')) < 0.1).length")
    )
    assert faded > 0
    page.keyboard.press("Escape")
    page.locator(".brush-bar").wait_for(state="hidden")
    assert visible_rows(page, "trials") == everything


def test_two_clicked_rows_are_compared_with_their_differences(page: Page, record: StudyRecord) -> None:
    keys = visible_rows(page, "front")[:2]
    for key in keys:
        page.locator(f'#table-front tr[data-key="{key}"] button.name').press("Enter")
    table = page.locator(".compared-pair table")
    one, other = (
        next(i for i in select(record).everything if network_key(i.label, i.config, i.eval_exits) == key)
        for key in keys
    )
    flops = table.locator("tr").filter(has_text="MFLOPs").locator("td").last.inner_text()
    change = (one.values["flops"] - other.values["flops"]) / 1e6
    assert float(flops.split()[0].replace("−", "-")) == pytest.approx(change, abs=1e-5)
    assert "No paired comparison" in page.locator(".compared-pair figcaption").inner_text()
    assert "sae compare" in page.locator(".compared-pair code").inner_text()
    page.locator(f'#table-front tr[data-key="{keys[0]}"] button.name').click()
    assert page.locator(".compared-pair table").count() == 0


def test_confirmed_networks_are_compared_with_the_intervals_of_a_paired_bootstrap(
    browser: Browser, tmp_path: Path
) -> None:
    record = confirmed_study(tmp_path / "s", shift=False).record
    results = find(record).confirmed
    keep_predictions(results[:-1])
    write_page(report_of([record]), tmp_path / "page.html")
    one, other = find(record).shown["pick"], find(record).shown["ensemble"]
    keys = [network_key(item.label, item.config, item.eval_exits) for item in (one, other)]
    kept = [read_predictions(item) for item in (one, other)]
    assert kept[0] is not None
    assert kept[1] is not None
    (expected,) = compare_samples(kept[0], kept[1], ["nll"])
    page = Opened(browser, (tmp_path / "page.html").as_uri(), viewport=DESK).page

    def compared(first: str, second: str) -> tuple[list[float], str, str]:
        set_address(page, f"compare={quote(f'{first},{second}', safe=',/@')}")
        line = page.locator(".compared-pair tr").filter(has_text="NLL").filter(has_text="test")
        text = line.locator("td").last.inner_text().replace("−", "-")
        caption = page.locator(".compared-pair figcaption").inner_text()
        return [float(word) for word in re.findall(r"-?\d+\.\d+", text)], text, caption

    numbers, text, caption = compared(*keys)
    assert numbers == pytest.approx([expected.value, expected.low, expected.high], abs=5e-4)
    verdict = {"better": "first better", "worse": "second better"}.get(expected.verdict, expected.verdict)
    assert verdict in text
    assert "over test samples (paired bootstrap, 1,000 resamples) and new seeds" in caption
    assert compared(*reversed(keys))[0] == [-numbers[0], -numbers[2], -numbers[1]]
    last = network_key(results[-1].label, results[-1].config, results[-1].eval_exits)
    assert "No paired comparison" in compared(keys[0], last)[2]
    page.close()


def test_a_pinned_mark_is_copied_and_compared(page: Page) -> None:
    mark = page.locator("#figure-search .panel").first.locator(".mark-symbol.role-mark").first.locator("path").last
    mark.scroll_into_view_if_needed()
    box = boxes(mark)[0]
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator("#vg-tooltip-element.visible").wait_for()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator(".pinned .copy").count() == 1
    page.locator(".pinned button").filter(has_text="Compare").click()
    assert "compare=" in page.url
