import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from sae.analysis.results import SetMeans
from sae.core.objectives import objective
from sae.data.corruptions import CORRUPTIONS, FAMILIES, SEVERITIES
from sae.records.evaluation import ShiftedSet
from sae.report.figures.heat import (
    ON_DARK,
    PALE_TO_DARK,
    WORSE_TO_BETTER,
    ShiftMap,
    shift_figure,
    shift_heatmap,
)
from tests.report.drawing import draw, draw_all, marks, rows_of, texts

F1, NLL = objective("f1", "classification"), objective("nll", "classification")


def sets(worse: float = 0.0) -> list[SetMeans]:
    return [
        SetMeans(name, severity, {"f1": 1 - 0.1 * severity - worse, "nll": 0.1 * severity})
        for name in CORRUPTIONS
        for severity in SEVERITIES
    ]


def compared() -> list[ShiftMap]:
    return [ShiftMap("sae/1", sets()), ShiftMap("ensemble/0", sets(0.05)), ShiftMap("standard/0", sets(0.1))]


def test_every_corruption_is_of_one_family() -> None:
    listed = [name for names in FAMILIES.values() for name in names]
    assert sorted(listed) == sorted(CORRUPTIONS)


def test_every_configuration_has_a_cell_for_every_set() -> None:
    figure = shift_figure(compared(), F1, name="shift", title="t")
    drawn = draw_all(figure)
    assert len(drawn) == 2 * 3
    for svg in drawn:
        assert len(marks(svg, "rect mark")) == 95
        assert {"Noise", "Blur", "Weather", "Digital", "gaussian", "jpeg"} <= set(texts(svg))


def test_all_configurations_have_the_same_colours() -> None:
    figure = shift_figure(compared(), F1, name="shift", title="t")
    assert figure
    scales = [panel.to_dict()["layer"][0]["encoding"]["color"]["scale"] for panel in figure.panels]
    assert scales[0] == scales[1] == scales[2]
    assert (scales[0]["domain"][0], scales[0]["domain"][-1]) == pytest.approx((0.4, 0.9))


@pytest.mark.parametrize(("item", "range_"), [(F1, PALE_TO_DARK), (NLL, PALE_TO_DARK[::-1])])
def test_darker_is_better(item: Any, range_: tuple[str, ...]) -> None:
    figure = shift_figure(compared(), item, name="shift", title="t")
    assert figure
    assert tuple(figure.panels[0].to_dict()["layer"][0]["encoding"]["color"]["scale"]["range"]) == range_


def test_numbers_are_light_on_dark_cells_only() -> None:
    figure = shift_figure(compared()[:1], F1, name="shift", title="t")
    assert figure
    colours = {mark["aria-label"]: mark["fill"] for mark in marks(draw(figure.panels[0]), "text mark")}
    light = {label.split("severity: ")[1][0] for label, colour in colours.items() if colour == ON_DARK}
    assert light == {"1", "2"}


def test_a_last_panel_shows_by_how_much_the_first_is_better() -> None:
    figure = shift_figure(compared(), F1, difference_to="ensemble/0", name="shift", title="t")
    draw_all(figure)
    assert figure
    assert len(figure.panels) == 4
    assert {round(row["value"], 6) for row in rows_of(figure.panels[3])} == {0.05}
    scale = figure.panels[3].to_dict()["layer"][0]["encoding"]["color"]["scale"]
    assert scale["domain"][0] == -scale["domain"][-1]
    assert tuple(scale["range"]) == WORSE_TO_BETTER
    assert "mean of 95 sets: +0.050" in texts(draw(figure.panels[3]))


@pytest.mark.parametrize("label", [None, "mc_dropout/0", "sae/1"])
def test_a_difference_to_what_is_not_there_is_left_out(label: str | None) -> None:
    figure = shift_figure(compared(), F1, difference_to=label, name="shift", title="t")
    assert figure
    assert len(figure.panels) == 3


def test_equal_configurations_differ_nowhere() -> None:
    same = [compared()[0], replace(compared()[0], label="other")]
    draw_all(shift_figure(same, F1, difference_to="other", name="shift", title="t"))


def test_sets_without_a_value_are_left_out() -> None:
    lacking: list[dict[str, float]] = [{}, {"f1": math.nan}]
    holes = [replace(one, metrics=metrics) for one, metrics in zip(sets(), lacking, strict=False)]
    figure = shift_figure([ShiftMap("sae/1", [*holes, *sets()[2:]])], F1, name="shift", title="t")
    for svg in draw_all(figure):
        assert len(marks(svg, "rect mark")) == 93
    assert shift_figure([ShiftMap("sae/1", holes)], F1, name="shift", title="t") is None
    assert shift_figure([], F1, name="shift", title="t") is None


def test_one_set_alone_and_a_corruption_of_ones_own_can_be_drawn() -> None:
    own = [SetMeans("hail_storm", 1, {"f1": 0.5})]
    for svg in draw_all(shift_figure([ShiftMap("sae/1", own)], F1, name="shift", title="t")):
        assert "Others" in texts(svg)


def test_a_heat_map_of_one_run_is_saved_without_a_browser(tmp_path: Path) -> None:
    measured = [ShiftedSet(**vars(one)) for one in sets()]
    chart = shift_heatmap(measured, "f1", maximise=True, title="f1")
    assert len(rows_of(chart)) == 95
    chart.save(tmp_path / "map.png")
    with Image.open(tmp_path / "map.png") as image:
        assert image.width > 300
        assert len(image.convert("RGB").getcolors(1_000_000) or []) > 20  # something is drawn
