import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from sae.analysis.network_plan import NetworkPlan
from sae.config.methods import all_kinds
from sae.report.figures.network import MOST_COLUMNS, MOST_NETWORKS, draw_file, draw_on_page
from sae.report.figures.theme import ON_PAGE
from tests.networks import plan_of, sae_plan
from tests.report.drawing import texts
from tests.reports import HOSTILE


def elements(svg: str, tag: str) -> list[dict[str, str]]:
    return [dict(node.attrib) for node in ElementTree.fromstring(svg).iter() if node.tag.endswith(f"}}{tag}")]


def dots(plan: NetworkPlan) -> list[float]:
    colour = all_kinds()[plan.kind].colour
    return [float(dot["r"]) for dot in elements(draw_file(plan), "circle") if dot["fill"] == colour]


def test_a_dot_stands_for_each_prediction_and_its_area_for_the_weight() -> None:
    plan = sae_plan(3, 2)
    weights = [weight for row in plan.rows if row.exit for weight in row.exit.weights if weight > 0]
    assert len(dots(plan)) == plan.num_predictions == 6
    assert dots(plan) == pytest.approx([12 * weight**0.5 for weight in weights], abs=0.01)


def test_what_was_pruned_away_is_dashed_and_counted() -> None:
    plan = sae_plan(1, 1)
    assert not all(row.part.is_used and (row.exit is None or row.exit.part.is_used) for row in plan.rows)
    svg = draw_file(plan)
    assert "stroke-dasharray" in svg
    assert any(text.startswith(f"Pruned away: {plan.pruned.params:,} parameters") for text in texts(svg))


def test_nothing_is_dashed_where_nothing_was_pruned() -> None:
    svg = draw_file(plan_of("standard"))
    assert "stroke-dasharray" not in svg
    assert "Pruned" not in svg


@pytest.mark.parametrize("name", ["sae", "standard", "ensemble", "mc_dropout", "batch_ensemble"])
@pytest.mark.parametrize("backbone", ["fc", "resnet", "vit"])
def test_every_mark_lies_within_the_drawing(name: str, backbone: str) -> None:
    svg = draw_file(plan_of(name, backbone))
    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for box in elements(svg, "rect"):
        assert float(box.get("x", 0)) + float(box["width"]) <= width
        assert float(box.get("y", 0)) + float(box["height"]) <= height
    for dot in elements(svg, "circle"):
        assert float(dot["cx"]) + float(dot["r"]) <= width
        assert float(dot["cy"]) + float(dot["r"]) <= height
    assert all(float(text["y"]) < height for text in elements(svg, "text"))
    assert not re.search("nan|inf", svg)


def test_a_file_is_light_by_itself_and_dark_in_a_browser_that_is() -> None:
    svg = draw_file(sae_plan(2, 2))
    assert "var(" not in svg
    assert "prefers-color-scheme: dark" in svg


def test_on_a_page_colours_follow_its_theme() -> None:
    svg = draw_on_page(sae_plan(2, 2), ON_PAGE)
    assert not re.search('(fill|stroke)="#', svg)
    assert "<style>" not in svg


def test_names_cannot_break_out_of_the_drawing() -> None:
    plan = replace(sae_plan(2, 2), name=HOSTILE, settings=HOSTILE)
    assert ElementTree.fromstring(draw_file(plan)) is not None
    assert "<script>" not in draw_file(plan)


def test_of_many_columns_the_rest_is_counted() -> None:
    assert f"input (and {11 - MOST_COLUMNS} more)" in texts(draw_file(sae_plan(11, 1)))
    plan = plan_of("ensemble")
    many = replace(plan, networks=plan.networks * 4, columns=plan.columns * 4, shares=(1 / 8,) * 8)
    assert f"and {8 - MOST_NETWORKS} more" in texts(draw_file(many))
