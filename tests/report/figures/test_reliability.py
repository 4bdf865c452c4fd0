from dataclasses import replace

import pytest

from sae.analysis.curves import ReliabilityBin
from sae.config.methods import all_kinds
from sae.report.figures.curves import Reliability, filled_bins, reliability_figure
from tests.report.drawing import draw, draw_all, marks, rows_of, texts

BINS = (
    ReliabilityBin(0.0, 0.2, 0, None, None),
    ReliabilityBin(0.2, 0.4, 0, None, None),
    ReliabilityBin(0.4, 0.6, 5, 0.5, 0.4),
    ReliabilityBin(0.6, 0.8, 15, 0.7, 0.8),
    ReliabilityBin(0.8, 1.0, 80, 0.95, 0.9),
)
ECE = 0.05 * 0.1 + 0.15 * 0.1 + 0.8 * 0.05


def compared() -> list[Reliability]:
    return [Reliability(f"{kind}/0", kind, ECE, BINS) for kind in ("EE", "ensemble", "standard")]


def test_every_bin_with_samples_is_a_point_and_a_gap_in_the_colour_of_the_class() -> None:
    figure = reliability_figure(compared(), name="reliability", title="t")
    assert len(draw_all(figure)) == 6
    assert figure
    for panel, kind in zip(figure.panels, ("EE", "ensemble", "standard"), strict=True):
        svg = draw(panel)
        assert [mark["fill"] for mark in marks(svg, "point")] == [all_kinds()[kind].colour] * 3
        assert len(marks(svg, "rule mark")) == 3


def test_the_gaps_by_their_shares_are_the_error_that_is_named() -> None:
    bins = filled_bins(BINS)
    assert sum(item["share"] * abs(item["gap"]) for item in bins) == pytest.approx(ECE)
    assert [(item["from"], item["to"]) for item in bins] == [(0.4, 0.6), (0.6, 0.8), (0.8, 1.0)]
    figure = reliability_figure(compared(), name="reliability", title="t")
    assert figure
    assert f"ECE {ECE:.4f}, 100 samples" in texts(draw(figure.panels[0]))


def test_the_diagonal_is_where_accuracy_is_confidence() -> None:
    figure = reliability_figure(compared(), name="reliability", title="t")
    assert figure
    diagonal = figure.panels[0].to_dict()["layer"][0]["data"]["values"]
    assert diagonal[-1] == {"confidence": 1, "accuracy": 1}
    assert diagonal[0]["confidence"] == diagonal[0]["accuracy"]


def test_all_panels_have_the_same_axes() -> None:
    low = replace(compared()[0], bins=[replace(item, accuracy=0.05) for item in BINS])
    figure = reliability_figure([*compared(), low], name="reliability", title="t")
    assert figure
    scales = [panel.to_dict()["layer"][1]["encoding"]["x"]["scale"] for panel in figure.panels]
    assert all(scale == scales[0] for scale in scales)
    assert scales[0]["domain"][0] < 0.1


def test_one_bin_alone_can_be_drawn_and_none_is_not() -> None:
    one = (ReliabilityBin(0.0, 0.5, 0, None, None), ReliabilityBin(0.5, 1.0, 7, 1.0, 1.0))
    figure = reliability_figure([replace(compared()[0], bins=one)], name="reliability", title="t")
    draw_all(figure)
    assert figure
    assert rows_of(figure.panels[0])[0]["share"] == 1
    assert reliability_figure([replace(compared()[0], bins=BINS[:2])], name="reliability", title="t") is None
    assert reliability_figure([], name="reliability", title="t") is None
