from typing import Any

import altair as alt
import pytest

from sae.config.methods import all_kinds
from sae.report.figures.theme import DARK, ON_PAGE, ON_PAPER, chart_config, on_page, palette_css
from sae.report.labels import shape_of
from tests.reports import cells, scatter


def luminance(colour: str) -> float:
    """As WCAG 2 defines it."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [colour for colour in DARK if colour != "#FFFFFF"])
def test_marks_stand_out_in_the_dark(colour: str) -> None:
    assert (luminance(DARK[colour]) + 0.05) / (luminance(DARK["#FFFFFF"]) + 0.05) > 4.5


def test_every_class_of_methods_has_a_colour_in_the_dark() -> None:
    assert {kind.colour for kind in all_kinds().values()} <= set(DARK)


def test_a_scale_of_names_and_marks_take_variables_of_the_page() -> None:
    spec: dict[str, Any] = on_page(scatter().to_dict())
    marks, ring = spec["layer"]
    assert set(marks["encoding"]["color"]["scale"]["range"]) == {
        f"var(--c-{kind.colour[1:].lower()})" for kind in all_kinds().values()
    }
    assert marks["encoding"]["shape"]["scale"]["range"] == [shape_of(kind) for kind in all_kinds().values()]
    assert ring["mark"]["stroke"] == "var(--c-000000)"


def test_every_variable_that_is_named_is_defined() -> None:
    css = palette_css()
    assert all(css.count(f"--c-{colour[1:].lower()}:") == 2 for colour in DARK)


def test_cells_and_what_is_on_them_keep_their_colours() -> None:
    spec: dict[str, Any] = on_page(cells().to_dict())
    assert spec["layer"][1]["mark"]["color"] == "black"
    assert spec["config"]["text"]["color"] == ON_PAPER.text


def test_data_and_conditions_are_left_alone() -> None:
    colour = alt.condition("datum.x > 1", alt.value("white"), alt.value("black"))
    chart = alt.Chart(alt.Data(values=[{"color": "black"}])).mark_text().encode(color=colour, text=alt.value("x"))
    spec = on_page(chart.to_dict())
    assert "var(" not in str(spec)


def test_values_for_all_marks_are_exchanged() -> None:
    chart = alt.Chart(alt.Data(values=[])).mark_point().encode(stroke=alt.value("black"))
    spec: dict[str, Any] = on_page(chart.to_dict())
    assert spec["encoding"]["stroke"]["value"] == "var(--c-000000)"


def test_a_page_and_a_file_differ_in_nothing_but_inks() -> None:
    text = str(chart_config(ON_PAGE))
    for role in ("text", "quiet", "faint"):
        text = text.replace(getattr(ON_PAGE, role), getattr(ON_PAPER, role))
    assert text.replace("'background': None", f"'background': {ON_PAPER.paper!r}") == str(chart_config(ON_PAPER))
