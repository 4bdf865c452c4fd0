import math
from dataclasses import replace

import pytest

from sae.config.methods import all_kinds, kinds_with_exits
from sae.core.objectives import objective
from sae.report.figures.scatter import Details, Point, confirmed_scatter, under_shift, usual_pairs
from tests.report.drawing import draw, draw_all, marks, rows_of, texts

pytestmark = pytest.mark.long

TASK = "classification"
F1, ECE, NLL, FLOPS = (objective(name, TASK) for name in ("f1", "cc_ece", "nll", "flops"))
PAIRS = usual_pairs(("f1", "cc_ece"), TASK)


def points(std: float | None = 0.01) -> list[Point]:
    return [
        Point(
            kind,
            f"{kind}/{index}",
            {"f1": 0.8 + 0.01 * index, "cc_ece": 0.1, "nll": 0.4, "flops": 10_000.0 * (index + 1), "params": 9000.0},
            {"f1": std, "cc_ece": std, "nll": std, "flops": 0.0 if index else std, "params": None},
            is_pick=index == 1,
            seeds=4,
            details=Details("W=1", 1 if kind in kinds_with_exits() else None, "sae train"),
        )
        for index, kind in enumerate(all_kinds())
    ]


def test_every_mean_is_a_point_with_a_bar_to_both_sides() -> None:
    figure = confirmed_scatter(points(), PAIRS, name="confirmed", title="t")
    for svg in draw_all(figure):
        assert sum("sae train" in mark["aria-label"] for mark in marks(svg, "point")) == len(all_kinds())
    assert figure
    row = rows_of(figure.panels[0])[0]
    assert (row["y_low"], row["y"], row["y_high"]) == pytest.approx((0.79, 0.8, 0.81))
    assert len(marks(draw(figure.panels[0]), "rule mark")) == 2 * len(all_kinds())
    assert len(marks(draw(figure.panels[1]), "rule mark")) == len(all_kinds()) + 1  # only one differs in its FLOPs


def test_only_an_sae_is_told_to_be_read_at_some_exits() -> None:
    figure = confirmed_scatter(points(), PAIRS, name="confirmed", title="t")
    assert figure
    told = {row["method"]: row["eval_exits"] for row in rows_of(figure.panels[0])}
    assert told == {kind.label: 1 if kind.label.startswith("SAE") else "–" for kind in all_kinds().values()}


def test_bars_have_the_colours_of_the_classes() -> None:
    figure = confirmed_scatter(points(), [(ECE, F1)], name="confirmed", title="t")
    assert figure
    drawn = {mark["stroke"] for mark in marks(draw(figure.panels[0]), "rule mark")}
    assert drawn == {kind.colour for kind in all_kinds().values()}


@pytest.mark.parametrize("std", [None, math.nan])
def test_means_of_one_seed_have_no_bars(std: float | None) -> None:
    for svg in draw_all(confirmed_scatter(points(std), PAIRS, name="confirmed", title="t")):
        assert not marks(svg, "rule mark")


def test_the_pointer_is_told_mean_and_spread() -> None:
    figure = confirmed_scatter(points(), PAIRS, name="confirmed", title="t")
    assert figure
    tooltip = figure.panels[0].to_dict()["layer"][2]["encoding"]["tooltip"]
    field = next(item["field"] for item in tooltip if item["title"] == "F1")
    assert rows_of(figure.panels[0])[0][field] == "0.8000 ± 0.0100"


def test_the_legend_is_on_the_first_panel() -> None:
    figure = confirmed_scatter(points(), PAIRS, name="confirmed", title="t")
    assert figure
    names = {kind.label for kind in all_kinds().values()}
    assert [names <= set(texts(draw(panel))) for panel in figure.panels] == [True, False, False]


def test_shift_is_drawn_where_there_is_shift() -> None:
    assert confirmed_scatter(points(), under_shift(PAIRS), name="confirmed-shift", title="t") is None
    values = {"f1@shift": 0.6, "cc_ece@shift": 0.2, "nll@shift": 1.0}
    shifted = [replace(point, values={**point.values, **values}) for point in points()]
    figure = confirmed_scatter(shifted, under_shift(PAIRS), name="confirmed-shift", title="t")
    draw_all(figure)
    assert figure
    assert [panel.to_dict()["title"]["text"] for panel in figure.panels] == [
        "F1 and CC-ECE under shift",
        "NLL under shift and FLOPs",
    ]


def test_a_spread_beyond_zero_does_not_break_a_logarithmic_axis() -> None:
    wide = [replace(points()[0], stds={"flops": 20_000.0}), points()[1]]
    figure = confirmed_scatter(wide, [(FLOPS, NLL)], name="confirmed", title="t")
    draw_all(figure)
    assert figure
    assert figure.panels[0].to_dict()["layer"][1]["encoding"]["x"]["scale"]["domain"][0] > 5000


def test_one_alone_can_be_drawn_and_none_is_not() -> None:
    draw_all(confirmed_scatter(points()[1:2], PAIRS, name="confirmed", title="t"))
    draw_all(confirmed_scatter(points(None)[:1], PAIRS, name="confirmed", title="t"))
    assert confirmed_scatter([], PAIRS, name="confirmed", title="t") is None
    unknown = [replace(points()[0], values={"f1": math.nan, "cc_ece": None})]
    assert confirmed_scatter(unknown, PAIRS, name="confirmed", title="t") is None
