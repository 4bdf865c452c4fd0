import math
from collections.abc import Sequence

import pytest

from sae.analysis.curves import RiskPoint
from sae.config.methods import ORANGE, all_kinds
from sae.report.figures.curves import LEAST_COVERAGE, RiskCurve, risk_coverage_figure
from tests.report.drawing import curve_colours, draw, draw_all, marks, rows_of, texts

KINDS = {"sae/1": "EE", "sae/2": "MIMO", "ensemble/0": "ensemble"}


def curves(
    coverage: Sequence[float] = (0.2, 0.4, 0.6, 0.8, 1.0),
    risk: Sequence[float] = (0.0, 0.02, 0.04, 0.06, 0.08),
    std: float | None = None,
) -> list[RiskCurve]:
    points = [RiskPoint(x, y, std) for x, y in zip(coverage, risk, strict=True)]
    return [RiskCurve(label, kind, points) for label, kind in KINDS.items()]


def test_each_configuration_has_a_risk_curve_in_its_colour_and_its_label_in_the_legend() -> None:
    for svg in draw_all(risk_coverage_figure(curves(), name="risk-coverage", title="t")):
        assert curve_colours(svg) == [ORANGE, ORANGE, all_kinds()["ensemble"].colour]
        assert [text for text in texts(svg) if text in KINDS] == list(KINDS)
        assert not marks(svg, "text mark")


def test_curves_reach_the_end_of_the_axis() -> None:
    figure = risk_coverage_figure(curves(), name="risk-coverage", title="t")
    assert figure
    for layer in figure.panels[0].to_dict()["layer"]:
        assert layer["encoding"]["x"]["scale"]["domain"] == [0, 1]


def test_the_risk_of_a_handful_of_samples_is_left_out_and_does_not_set_the_axis() -> None:
    coverage = [0.01, 0.04, LEAST_COVERAGE, 0.5, 1.0]
    figure = risk_coverage_figure(
        curves(coverage=coverage, risk=[1.0, 0.5, 0.1, 0.05, 0.1]), name="risk-coverage", title="t"
    )
    assert figure
    assert {row["x"] for row in rows_of(figure.panels[0])} == {LEAST_COVERAGE, 0.5, 1.0}
    top = figure.panels[0].to_dict()["layer"][0]["encoding"]["y"]["scale"]["domain"][1]
    assert top == pytest.approx(0.105)
    assert "begin at 5 %" in figure.caption


def test_a_band_of_one_standard_deviation_is_drawn_where_it_is_known_and_ends_at_zero() -> None:
    figure = risk_coverage_figure(curves(std=0.01), name="risk-coverage", title="t")
    assert figure
    draw_all(figure)
    assert len(marks(draw(figure.panels[0]), "area mark")) == 3
    first, *_, last = rows_of(figure.panels[0])[:5]
    assert (first["low"], first["high"]) == (0.0, 0.01)
    assert (last["low"], last["high"]) == (pytest.approx(0.07), pytest.approx(0.09))
    assert "standard deviation" in figure.caption


def test_one_seed_has_no_band() -> None:
    figure = risk_coverage_figure(curves(), name="risk-coverage", title="t")
    assert figure
    assert not marks(draw(figure.panels[0]), "area mark")
    assert "standard deviation" not in figure.caption


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_points_of_a_curve_that_are_not_known_are_left_out(value: float) -> None:
    figure = risk_coverage_figure(curves(risk=[value, 0.02, 0.04, 0.06, 0.08]), name="risk-coverage", title="t")
    draw_all(figure)
    assert figure
    assert len(rows_of(figure.panels[0])) == 12
    assert risk_coverage_figure(curves(risk=[value] * 5), name="risk-coverage", title="t") is None
    assert risk_coverage_figure([], name="risk-coverage", title="t") is None


def test_one_sample_that_is_right_can_be_drawn() -> None:
    draw_all(
        risk_coverage_figure([RiskCurve("sae/1", "EE", [RiskPoint(1.0, 0.0, None)])], name="risk-coverage", title="t")
    )
