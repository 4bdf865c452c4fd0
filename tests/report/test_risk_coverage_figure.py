import itertools
import math
from typing import Any

import pytest

from sae.report.kinds import LOOKS, ORANGE
from sae.report.risk_coverage_figure import risk_coverage_figure
from tests.report.drawing import curve_colours, draw, draw_all, marks, rows_of, texts

KINDS = {"sae/1": "EE", "sae/2": "MIMO", "ensemble/0": "ensemble"}


def curves(length: int = 5) -> list[dict[str, Any]]:
    return [
        {
            "label": label,
            "kind": kind,
            "coverage": [(step + 1) / length for step in range(length)],
            "risk": [0.1 * step / length for step in range(length)],
        }
        for label, kind in KINDS.items()
    ]


def test_each_configuration_has_a_risk_curve_in_its_colour_with_its_label() -> None:
    for svg in draw_all(risk_coverage_figure(curves(), name="risk-coverage", title="t")):
        assert curve_colours(svg) == [ORANGE, ORANGE, LOOKS["ensemble"].colour]
        assert set(KINDS) <= set(texts(svg))


def test_labels_do_not_lie_on_each_other() -> None:
    figure = risk_coverage_figure(curves(), name="risk-coverage", title="t")
    assert figure
    heights = sorted(
        float(mark["transform"].split(",")[1].rstrip(")")) for mark in marks(draw(figure.panels[0]), "text mark")[3:]
    )
    assert min(second - first for first, second in itertools.pairwise(heights)) > 11


@pytest.mark.parametrize("value", [None, math.nan])
def test_points_of_a_curve_that_are_not_known_are_left_out(value: float | None) -> None:
    holes = [{**curve, "risk": [value, *curve["risk"][1:]]} for curve in curves()]
    figure = risk_coverage_figure(holes, name="risk-coverage", title="t")
    draw_all(figure)
    assert figure
    assert len(rows_of(figure.panels[0])) == 12
    empty = [{**curve, "risk": [value] * 5} for curve in curves()]
    assert risk_coverage_figure(empty, name="risk-coverage", title="t") is None
    assert risk_coverage_figure([], name="risk-coverage", title="t") is None


def test_one_sample_that_is_right_can_be_drawn() -> None:
    one = {"label": "sae/1", "kind": "EE", "coverage": [1.0], "risk": [0.0]}
    draw_all(risk_coverage_figure([one], name="risk-coverage", title="t"))
