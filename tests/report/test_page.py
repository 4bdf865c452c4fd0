import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import altair as alt
import pytest

from sae.report.content import Figure, Lead, Report, Section
from sae.report.page import render_page, write_page
from sae.report.page_charts import figure_data, page_spec
from tests.report.test_page_charts import unpack_spec
from tests.reports import COMMAND, HOSTILE, line, scatter, small_report

VOID = {"meta", "link"}


class Outline(HTMLParser):
    """Checks that elements are closed in order, and collects ids and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.addresses += [str(values[key]) for key in ("src", "href") if key in values]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text() -> str:
    return render_page(small_report())


def test_a_page_that_is_passed_on_carries_the_licences_of_what_it_embeds(text: str) -> None:
    notice = (Path(__file__).parents[2] / "NOTICE").read_text(encoding="utf-8")
    assert (files("sae.report") / "notice.txt").read_text(encoding="utf-8") == notice
    assert f"<!--\n{notice.strip()}\n-->" in text
    assert "--" not in notice  # a comment would end there


def test_every_element_is_closed_and_every_id_is_there_once(text: str) -> None:
    outline = Outline(text)
    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert outline.tags.count("script") == 4


def test_links_stay_on_the_page(text: str) -> None:
    outline = Outline(text)
    assert "data:," in outline.addresses
    inner = [address for address in outline.addresses if address != "data:,"]
    assert [address[1:] for address in inner if address[1:] in outline.ids] == ["words", "lead", "search", "front"]
    assert len(inner) == 4


def test_a_page_without_a_glossary_has_no_place_for_it_and_no_link(text: str) -> None:
    without = render_page(replace(small_report(), glossary=()))
    for part in ("<details>", '<a href="#words"'):
        assert part in text
        assert part not in without


def test_nothing_from_outside_becomes_markup(text: str) -> None:
    assert HOSTILE not in text
    assert "<b>" not in text.split("<script>\n// Vega")[0]


def test_code_in_prose_is_marked(text: str) -> None:
    assert "Run <code>sae pick</code>" in text


def test_charts_come_back_from_the_page_as_they_went_in(text: str) -> None:
    found = re.search(r'id="figures">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    charts = {name: [unpack_spec(panel, data["texts"]) for panel in panels] for name, panels in data["figures"].items()}
    assert charts["search-quality"] == [page_spec(scatter()), page_spec(line())]
    assert charts["grid"][0]["title"] == HOSTILE
    assert found[1].count(COMMAND) == 1


def test_a_number_that_is_no_json_is_refused() -> None:
    chart = alt.Chart(alt.Data(values=[{"x": float("nan")}])).mark_point()
    with pytest.raises(ValueError, match="not JSON compliant"):
        figure_data([Figure("f", "F", "", (chart,))])


def test_panels_stretch_and_their_legends_are_below() -> None:
    chart = (
        line().properties(width=280).encode(color=alt.Color("trials:N", legend=alt.Legend(orient="right", title="t")))
    )
    spec: dict[str, Any] = page_spec(chart)
    assert spec["width"] == "container"
    assert spec["encoding"]["color"]["legend"] == {"title": "t"}
    hidden: dict[str, Any] = page_spec(line().encode(color=alt.Color("trials:N", legend=None)))
    assert hidden["encoding"]["color"]["legend"] is None


def test_a_report_may_be_little_more_than_a_sentence() -> None:
    outline = Outline(render_page(Report("t", (), Lead("Nothing yet."), ())))
    assert "table" not in outline.tags
    assert outline.open == []


def test_ten_figures_of_three_hundred_marks_fit_in_a_page_to_mail() -> None:
    rows = [{"x": row, "y": row / 7, "label": f"sae/{row} K′=2", "command": "sae train " * 5} for row in range(300)]
    chart = alt.Chart(alt.Data(values=rows)).mark_point().encode(x="x:Q", y="y:Q")
    figures = tuple(Figure(f"f{index}", "F", "C", (chart,)) for index in range(10))
    report = replace(small_report(), sections=(Section("s", "S", "I", figures),))
    assert len(render_page(report).encode()) < 1.5e6


def test_a_page_is_written_as_a_whole(tmp_path: Path, text: str) -> None:
    write_page(small_report(), tmp_path / "index.html")
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == text
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
