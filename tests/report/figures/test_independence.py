from pathlib import Path

from sae.analysis.independence import CorrelationPoint
from sae.report.figures.independence import independence_figure
from sae.report.findings import find
from sae.report.search_sections import structure_section
from tests.report.drawing import draw_all, marks, rows_of
from tests.studies import DEPTH, StudyBuilder, point, sae


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
