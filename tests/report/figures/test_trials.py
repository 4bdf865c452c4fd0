import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sae.analysis.trials import CellMean, CorrelationPoint
from sae.config.methods import ORANGE
from sae.core.objectives import objective
from sae.report.content import Figure
from sae.report.figures.trials import grid_figure, independence_figure, special_cases
from sae.report.findings import find
from sae.report.search_sections import structure_section
from tests.builders import run_config
from tests.report.drawing import draw, draw_all, marks, rows_of, texts
from tests.studies import DEPTH, StudyBuilder, point, sae

F1, NLL = objective("f1", "classification"), objective("nll", "classification")
GRID_DEPTH, INPUTS = 5, 4


GREY = "#808080"


def cells() -> list[CellMean]:
    sampled = {(1, 1): 0.9, (1, 5): 0.95, (2, 3): 0.8, (4, 5): 0.85}
    return [CellMean(n, k, trials=n + k + 1, value=value, left_out=0) for (n, k), value in sampled.items()]


def with_trials(*counts: int) -> list[CellMean]:
    return [replace(cell, trials=trials) for cell, trials in zip(cells(), counts, strict=True)]


def drawn(rows: list[CellMean], depth: int = GRID_DEPTH, inputs: int = INPUTS) -> Figure:
    figure = grid_figure([(F1, rows)], depth=depth, max_inputs=inputs, name="grid", title="t")
    assert figure
    return figure


def darkest(svg: str) -> str:
    """The label of the darkest coloured cell."""
    coloured = [mark for mark in marks(svg, "rect mark") if mark.get("fill", "").startswith("rgb")]
    found = min(
        coloured, key=lambda mark: sum(map(int, mark["fill"].removeprefix("rgb(").removesuffix(")").split(",")))
    )
    return found["aria-label"]


def rects(figure: Figure) -> list[dict[str, str]]:
    return marks(draw(figure.panels[0]), "rect mark")


def test_a_sampled_cell_is_filled_and_shows_its_mean_and_number_of_trials() -> None:
    figure = drawn(cells())
    for svg in draw_all(figure):
        assert {"0.900", "3 trials", "0.950", "7 trials", "0.800", "6 trials", "0.850", "10 trials"} <= set(texts(svg))
    assert sum(mark.get("fill", "none").startswith("rgb") for mark in rects(figure)) == 4


def test_an_empty_cell_has_a_border_and_no_fill() -> None:
    empty = [mark for mark in rects(drawn(cells())) if "fill" not in mark and mark["stroke"] != ORANGE]
    assert len(empty) == GRID_DEPTH * INPUTS - 4
    unknown = [*cells(), CellMean(2, 2, trials=0, value=None, left_out=1)]
    assert len(rects(drawn(unknown))) == len(rects(drawn(cells())))


@pytest.mark.parametrize(("depth", "inputs"), [(5, 4), (2, 2), (3, 1), (1, 3), (1, 1)])
def test_outlines_cover_the_cells_of_their_class_and_no_others(depth: int, inputs: int) -> None:
    outlined: dict[tuple[int, int], str] = {}
    for case in special_cases(depth, inputs):
        (first_n, last_n), (first_k, last_k) = case.inputs, case.exits
        for n in range(first_n, last_n + 1):
            for k in range(first_k, last_k + 1):
                assert (n, k) not in outlined
                outlined[n, k] = case.kind
    for n in range(1, inputs + 1):
        for k in range(1, depth + 1):
            config = run_config(
                method={"name": "sae", "inputs": n, "exits": k}, backbone={"name": "fc", "depth": depth}
            )
            assert outlined.get((n, k), "I/B") == config.kind


def test_outlines_are_drawn_and_named() -> None:
    figure = drawn(cells())
    outlines = [mark for mark in rects(figure) if mark.get("stroke") == ORANGE]
    assert len(outlines) == 4
    assert not any("fill" in mark for mark in outlines)
    assert {"SE", "EE", "MIMO", "MIMMO"} <= set(texts(draw(figure.panels[0])))


@pytest.mark.parametrize(("item", "best"), [(F1, "N=1 K=5"), (NLL, "N=2 K=3")])
def test_the_best_cell_is_starred_and_the_darkest(item: Any, best: str) -> None:
    figure = grid_figure([(item, cells())], depth=GRID_DEPTH, max_inputs=INPUTS, name="grid", title="t")
    assert figure
    svg = draw(figure.panels[0])
    assert len(marks(svg, "point")) == 1
    assert any(best in text for text in texts(svg))
    n, k = (part.split("=")[1] for part in best.split())
    assert darkest(svg).startswith(f"exits K: {k}; inputs N: {n};")


@pytest.mark.parametrize(
    ("counts", "best", "is_sure"),
    [
        ((3, 2, 3, 3), "N=1 K=1", True),
        ((1, 3, 1, 1), "N=1 K=5", True),
        ((1, 1, 9, 2), "N=2 K=3", True),
        ((2, 1, 2, 2), "N=1 K=5", False),
    ],
)
def test_the_star_is_of_cells_with_enough_trials_and_hollow_where_there_are_none(
    counts: tuple[int, ...], best: str, is_sure: bool
) -> None:
    figure = drawn(with_trials(*counts))
    draw_all(figure)
    (star,) = marks(draw(figure.panels[0]), "point")
    assert (star.get("fill", "transparent") != "transparent") == is_sure
    assert (float(star.get("stroke-width", 0)) > 0) != is_sure
    assert best in figure.panels[0].to_dict()["title"]["subtitle"]
    few = any(number < 3 for number in counts)
    assert ("Grey: fewer than 3 trials" in figure.caption) == (is_sure and few)
    assert ("the hollow star is the best cell so far" in figure.caption) != is_sure


def test_a_cell_of_too_few_trials_is_grey_and_does_not_stretch_the_colours() -> None:
    rows = with_trials(3, 2, 3, 3)  # the best mean is that of two trials
    fills = [mark["fill"] for mark in rects(drawn(rows)) if "fill" in mark]
    assert fills.count(GREY) == 1
    without = [mark["fill"] for mark in rects(drawn([rows[0], *rows[2:]])) if "fill" in mark]
    assert [fill for fill in fills if fill != GREY] == without


def test_the_star_is_on_the_darkest_coloured_cell_whatever_the_trials() -> None:
    svg = draw(drawn(with_trials(3, 2, 3, 3)).panels[0])
    assert darkest(svg).startswith("exits K: 1; inputs N: 1;")
    assert any("best: N=1 K=1" in text for text in texts(svg))


def test_one_cell_alone_can_be_drawn_and_none_is_not() -> None:
    draw_all(drawn(cells()[:1]))
    draw_all(drawn(cells()[:1], depth=1, inputs=1))
    draw_all(drawn([replace(cells()[0], value=0.0)]))
    none = [replace(cell, value=value) for cell, value in zip(cells(), (None, math.nan, None, math.inf), strict=True)]
    assert grid_figure([(F1, none), (NLL, [])], depth=5, max_inputs=4, name="grid", title="t") is None


def test_each_metric_has_a_panel() -> None:
    figure = grid_figure([(F1, cells()), (NLL, cells())], depth=5, max_inputs=4, name="grid", title="t")
    assert figure
    assert [panel.to_dict()["title"]["text"] for panel in figure.panels] == ["F1", "NLL"]


def points() -> list[CorrelationPoint]:
    return [
        CorrelationPoint(setting, value, 0.5 + value / 10 + seed / 100, f"{setting} {value} {seed}")
        for setting, values in {"i end": (0.0, 0.5, 1.0), "N": (1.0, 2.0), "K": (3.0,)}.items()
        for value in values
        for seed in range(3)
    ]


def test_each_setting_that_varies_has_a_panel_with_every_network_and_the_means() -> None:
    figure = independence_figure(points(), name="independence", title="t")
    assert figure
    assert [panel.to_dict()["title"]["text"] for panel in figure.panels] == [
        "By i at the end of training",
        "By inputs N",
    ]
    rows = rows_of(figure.panels[0])
    assert sum(row["kind"] == "run" for row in rows) == 9
    assert [row["y"] for row in rows if row["kind"] == "mean"] == [0.51, 0.56, 0.61]
    for svg in draw_all(figure):
        assert marks(svg, "point")


def test_values_of_one_network_each_are_not_joined() -> None:
    alone = [CorrelationPoint("i end", index / 7, 0.5, str(index)) for index in range(7)]
    figure = independence_figure(alone, name="independence", title="t")
    assert figure
    assert {row["kind"] for row in rows_of(figure.panels[0])} == {"run"}


def test_nothing_is_drawn_without_networks_or_variation() -> None:
    assert independence_figure([], name="independence", title="t") is None
    assert independence_figure(points()[-3:], name="independence", title="t") is None


def test_the_page_of_a_study_has_the_figure_if_its_runs_have_the_numbers(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "study")
    for inputs in (1, 2):
        measured = point(0.5, 0.1, 1000, error_correlation=0.5 + inputs / 10)
        study.finish(sae(inputs, 2), [measured] * DEPTH)
    names = [getattr(part, "name", "") for part in structure_section(find(study.record)).parts]
    assert names[-1] == "independence"
    other = StudyBuilder(tmp_path / "other")
    other.finish(sae(1, 2), [point(0.5, 0.1, 1000)] * DEPTH)
    parts = structure_section(find(other.record)).parts
    assert "independence" not in [getattr(part, "name", "") for part in parts]
