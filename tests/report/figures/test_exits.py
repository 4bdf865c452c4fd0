import math
from dataclasses import replace
from typing import Any

import pytest

from sae.analysis.depth import DepthPoint
from sae.report.figures.exits import depth_figure, exit_colour
from tests.report.drawing import DARK, LIGHT, draw, draw_all, marks, rows_of, texts

DEPTH = 4


def rows(groups: tuple[str, ...] = ("all", "N=2"), epochs: int = 5, std: float | None = 0.3) -> list[DepthPoint]:
    return [
        DepthPoint(group, epoch, epoch / epochs, number, mean=number / 10, std=std, runs=3, left_out=0)
        for group in groups
        for epoch in range(1, epochs + 1)
        for number in range(1, DEPTH + 1)
    ]


def test_each_group_has_a_panel_with_a_line_and_a_label_for_every_exit() -> None:
    figure = depth_figure(rows(), depth=DEPTH, name="depth", title="t")
    for svg in draw_all(figure):
        assert len(marks(svg, "line mark")) == DEPTH
        assert {f"exit {number}" for number in range(1, DEPTH + 1)} <= set(texts(svg))
    assert figure
    assert [panel.to_dict()["title"]["text"] for panel in figure.panels] == ["all", "N=2"]
    assert figure.panels[0].to_dict()["title"]["subtitle"] == "3 runs"


def test_lines_have_the_colours_of_their_exits() -> None:
    figure = depth_figure(rows(), depth=DEPTH, name="depth", title="t")
    assert figure
    drawn = [mark["stroke"] for mark in marks(draw(figure.panels[0]), "line mark")]
    assert drawn == [exit_colour(number, DEPTH) for number in range(1, DEPTH + 1)]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("page", [LIGHT, DARK])
def test_exits_can_be_seen_on_light_and_dark_pages_and_grow_paler(page: dict[str, Any]) -> None:
    found = [luminance(exit_colour(number, 9)) for number in range(1, 10)]
    assert found == sorted(found)
    behind = luminance(page["background"])
    for value in found:
        assert (max(value, behind) + 0.05) / (min(value, behind) + 0.05) > 2.2


def test_the_dot_at_the_end_of_a_line_is_its_last_point() -> None:
    figure = depth_figure([replace(row, mean=(row.mean or 0) / 3) for row in rows()], depth=DEPTH, name="d", title="t")
    assert figure
    panel = figure.panels[0].to_dict()
    ends = {(row["exit"], row["y"]) for row in rows_of(figure.panels[0]) if row["x"] == 5}
    dots = next(layer["data"]["values"] for layer in panel["layer"] if "label" in str(layer.get("data")))
    assert {(row["exit"], row["y"]) for row in dots} == ends


def test_bands_stay_within_probabilities() -> None:
    figure = depth_figure([replace(row, mean=0.9) for row in rows()], depth=DEPTH, name="depth", title="t")
    assert figure
    assert {(row["low"], row["high"]) for row in rows_of(figure.panels[0])} == {(0.6, 1.0)}
    figure = depth_figure(rows(), depth=DEPTH, name="depth", title="t")
    assert figure
    assert min(row["low"] for row in rows_of(figure.panels[0])) == 0


def test_the_reference_is_where_all_exits_are_alike() -> None:
    figure = depth_figure(rows(), depth=DEPTH, name="depth", title="t")
    assert figure
    reference = figure.panels[0].to_dict()["layer"][0]
    assert reference["mark"]["strokeDash"]
    assert reference["data"]["values"] == [{"x": 1, "last": 5, "y": 1 / DEPTH}]


def test_all_panels_have_the_same_vertical_axis() -> None:
    mixed = [*rows(("all",)), *rows(("N=2",), std=None)]
    figure = depth_figure(mixed, depth=DEPTH, name="depth", title="t")
    assert figure
    domains = [panel.to_dict()["layer"][2]["encoding"]["y"]["scale"]["domain"] for panel in figure.panels]
    assert domains[0] == domains[1]


@pytest.mark.parametrize("std", [None, math.nan, 0.0])
def test_one_epoch_of_one_run_can_be_drawn(std: float | None) -> None:
    only = rows(("all",), epochs=1, std=std)
    for svg in draw_all(depth_figure(only, depth=DEPTH, name="depth", title="t")):
        assert sum(float(mark.get("opacity", 1)) == 1 for mark in marks(svg, "point")) == DEPTH


def test_without_runs_there_is_no_figure() -> None:
    assert depth_figure([], depth=DEPTH, name="depth", title="t") is None
    assert depth_figure([replace(rows()[0], mean=math.nan)], depth=DEPTH, name="depth", title="t") is None
