import math
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import pytest
import vl_convert

from sae.analysis.progress import Milestone
from sae.config.methods import all_kinds, kinds_with_exits
from sae.core.objectives import objectives
from sae.report.figures.axes import GREY
from sae.report.figures.scatter import Details, Point, usual_pairs
from sae.report.figures.search import (
    MOST_FAINT,
    hypervolume_figure,
    search_scatter,
    thinned,
    tried_scatter,
    within_view,
)
from sae.report.labels import shape_of
from tests.report.drawing import draw, draw_all, marks, rows_of, texts

pytestmark = pytest.mark.long

TASK = "classification"
NLL, ECE, FLOPS = objectives(["nll", "cc_ece", "flops"], TASK)
PAIRS = usual_pairs(("f1", "cc_ece"), TASK)


def points(count: int | None = None) -> list[Point]:
    """Points of all kinds in turn; by default one of each."""
    kinds = list(islice(cycle(all_kinds()), count or len(all_kinds())))
    return [
        Point(
            kind,
            f"{kind}/{index}",
            {
                "f1": 0.8 + 0.01 * index,
                "nll": 0.1 + 0.02 * index,
                "cc_ece": 0.05 - 0.004 * index,
                "flops": 1000 * 2**index,
                "params": 500 + index,
            },
            is_strong=index % 2 == 0,
            is_pick=index == 2,
            details=Details(
                "N=2 K=3 W=1",
                1 if kinds[index % len(kinds)] in kinds_with_exits() else None,
                f"sae train --seed {index}",
            ),
        )
        for index, kind in enumerate(kinds)
    ]


def with_values(point: Point, **values: float | None) -> Point:
    return replace(point, values={**point.values, **values})


def without_value(point: Point, name: str) -> Point:
    return replace(point, values={key: value for key, value in point.values.items() if key != name})


def test_every_configuration_is_a_point_in_every_panel_on_light_and_dark_pages() -> None:
    for svg in draw_all(search_scatter(points(), PAIRS, name="search", title="t")):
        assert sum("sae train" in mark["aria-label"] for mark in marks(svg, "point")) == len(all_kinds())


def test_only_an_sae_is_told_to_be_read_at_some_exits() -> None:
    figure = search_scatter(points(), PAIRS, name="search", title="t")
    assert figure
    told = {row["method"]: row["eval_exits"] for row in rows_of(figure.panels[0])}
    assert told == {kind.label: 1 if kind.label.startswith("SAE") else "–" for kind in all_kinds().values()}
    without = [replace(point, details=None) for point in points()]
    figure = search_scatter(without, PAIRS, name="search", title="t")
    assert figure
    assert not any("eval_exits" in row for row in rows_of(figure.panels[0]))


def test_points_have_the_colour_and_shape_of_their_class() -> None:
    figure = search_scatter(points(), PAIRS, name="search", title="t")
    assert figure
    for panel in figure.panels:
        encoding = panel.to_dict()["layer"][0]["encoding"]
        looks: dict[str, Any] = {"color": lambda kind: kind.colour, "shape": shape_of}
        for channel, wanted in looks.items():
            scale = encoding[channel]["scale"]
            shown = dict(zip(scale["domain"], scale["range"], strict=True))
            assert shown == {kind.label: wanted(kind) for kind in all_kinds().values()}
    assert {
        mark["fill"].upper() for mark in marks(draw(figure.panels[0]), "point") if "sae train" in mark["aria-label"]
    } == {kind.colour.upper() for kind in all_kinds().values()}


def test_the_front_is_strong_and_the_others_are_faint() -> None:
    figure = search_scatter(points(), PAIRS, name="search", title="t")
    assert figure
    drawn = [mark for mark in marks(draw(figure.panels[1]), "point") if "sae train" in mark["aria-label"]]
    num_faint = len(all_kinds()) // 2  # every second one is strong, from the first on
    assert [float(mark.get("opacity", 1)) for mark in drawn] == [0.3] * num_faint + [1] * (len(drawn) - num_faint)


def test_only_the_pick_is_ringed_and_labelled() -> None:
    figure = search_scatter(points(), PAIRS, name="search", title="t")
    assert figure
    svg = draw(figure.panels[1])
    assert [mark["stroke"] for mark in marks(svg, "point") if "fill" not in mark] == [GREY]
    assert [text for text in texts(svg) if "/" in text] == [points()[2].label] * 2  # its rim, and itself


def test_only_the_first_panel_has_the_legend_with_every_class() -> None:
    figure = search_scatter(points(), PAIRS, name="search", title="t")
    assert figure
    names = [kind.label for kind in all_kinds().values()]
    assert [name for name in names if name in texts(draw(figure.panels[0]))] == names
    for panel in figure.panels[1:]:
        assert not set(names) & set(texts(draw(panel)))


def test_a_click_on_a_class_leaves_only_that_one() -> None:
    figure = search_scatter(points(), PAIRS, name="search", title="t")
    assert figure
    spec = figure.panels[0].to_dict()
    clicked = next(param for param in spec["params"] if param.get("bind") == "legend")
    clicked["value"] = [{"method": "Standard"}]
    drawn = [mark for mark in marks(vl_convert.vegalite_to_svg(spec), "point") if "sae train" in mark["aria-label"]]
    strengths = {mark["aria-label"].split("kind: ")[1].split(";")[0]: mark.get("opacity", "1") for mark in drawn}
    assert strengths == {
        name: "1" if name == "Standard" else "0.04" for name in (kind.label for kind in all_kinds().values())
    }


def test_the_pointer_is_told_names_that_people_know_and_the_command() -> None:
    figure = search_scatter(points(), PAIRS, name="search", title="t")
    assert figure
    told = [item["title"] for item in figure.panels[0].to_dict()["layer"][0]["encoding"]["tooltip"]]
    values = ["CC-ECE", "F1", "FLOPs", "NLL", "parameters"]
    assert told == ["network", "kind", "settings", "K′", *values, "train it"]


def test_costs_are_on_logarithmic_axes() -> None:
    figure = search_scatter(points(), PAIRS, name="search", title="t")
    assert figure
    encodings = [panel.to_dict()["layer"][0]["encoding"] for panel in figure.panels]
    scales = [(encoding["x"]["scale"].get("type"), encoding["y"]["scale"].get("type")) for encoding in encodings]
    assert scales == [(None, None), ("log", None), ("log", "log")]


def test_what_is_far_worse_is_out_of_view_and_counted() -> None:
    bad = with_values(points()[1], nll=50.0)
    assert within_view([*points(), bad], ECE, NLL) == points()
    for row, said in (
        (bad, "1 much worse not shown"),
        (replace(bad, is_strong=True), "1 much worse not shown, 1 of them Pareto-optimal"),
    ):
        figure = search_scatter([*points(), row], [(ECE, NLL)], name="search", title="t")
        assert figure
        assert figure.panels[0].to_dict()["title"]["subtitle"] == said


def test_among_few_networks_none_is_called_much_worse() -> None:
    few = [with_values(points()[0], nll=0.5), *(with_values(point, nll=0.4) for point in points()[1:4])]
    assert within_view(few, ECE, NLL) == few


def test_where_no_candidate_was_trained_again_all_are_drawn_as_strong() -> None:
    faint = [replace(point, is_strong=False) for point in points()]
    figure = tried_scatter(faint, [(ECE, NLL)], name="tried", title="t", place="test data", remark="")
    assert figure
    assert "None was trained again." in figure.caption
    assert all(row["strong"] for row in rows_of(figure.panels[0]))


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_configuration_without_a_value_is_left_out(value: float | None) -> None:
    lacking = [with_values(points()[0], nll=value), without_value(points()[0], "nll")]
    assert within_view([*lacking, *points()], ECE, NLL) == points()
    draw_all(search_scatter([*lacking, *points()], PAIRS, name="search", title="t"))


def test_a_method_without_exits_has_none_to_tell() -> None:
    details = Details("W=1", None, "sae train")
    figure = search_scatter([replace(point, details=details) for point in points()], PAIRS, name="search", title="t")
    assert figure
    assert {row["eval_exits"] for row in rows_of(figure.panels[0])} == {"–"}


def test_pairs_that_no_configuration_has_are_left_out() -> None:
    without = [without_value(point, "params") for point in points()]
    figure = search_scatter(without, PAIRS, name="search", title="t")
    assert figure
    assert len(figure.panels) == 2
    assert search_scatter([], PAIRS, name="search", title="t") is None


@pytest.mark.parametrize("count", [1, 200])
def test_one_configuration_and_many_can_be_drawn(count: int) -> None:
    rows = [with_values(point, flops=100_000 + index) for index, point in enumerate(points(count))]
    figure = search_scatter(rows, PAIRS, name="search", title="t")
    for svg in draw_all(figure):
        assert numbers(svg)
    assert figure
    assert len(rows_of(figure.panels[2])) == count


def numbers(svg: str) -> list[str]:
    return [text for text in texts(svg) if text.rstrip("kM").replace(".", "").isdigit()]


def test_one_configuration_alone_has_its_cost_on_the_axis() -> None:
    figure = search_scatter([replace(points()[0], is_pick=True)], [(FLOPS, NLL)], name="search", title="t")
    assert figure
    assert "1k" in texts(draw(figure.panels[0]))


def test_the_same_rows_give_the_same_specification() -> None:
    first, second = (search_scatter(points(), PAIRS, name="search", title="t") for _ in range(2))
    assert first
    assert second
    assert [panel.to_json() for panel in first.panels] == [panel.to_json() for panel in second.panels]


def test_the_hypervolume_ends_at_its_last_number() -> None:
    history = [Milestone(f"sae/{index}", 60.0 * index, index, 0.1 * index) for index in range(1, 6)]
    for svg in draw_all(hypervolume_figure(history, name="hypervolume", title="t")):
        assert "0.500" in texts(svg)
        assert len(marks(svg, "line mark")) == 1
    draw_all(hypervolume_figure(history[:1], name="hypervolume", title="t"))
    assert hypervolume_figure([], name="hypervolume", title="t") is None


def test_of_many_faint_candidates_some_are_drawn_and_all_strong_ones() -> None:
    found = list(range(5 * MOST_FAINT))
    drawn = thinned(found, lambda item: item % 100 == 7)
    assert [item for item in found if item % 100 == 7] == [item for item in drawn if item % 100 == 7]
    assert len(drawn) == MOST_FAINT + len(found) // 100
    assert drawn == sorted(drawn) == thinned(found, lambda item: item % 100 == 7)
    assert thinned(found[:MOST_FAINT], lambda _: False) == found[:MOST_FAINT]


def test_a_figure_says_how_many_candidates_it_leaves_out() -> None:
    some = points()
    figure = search_scatter(some, PAIRS, name="search", title="t", total=5_000)
    assert figure is not None
    strong = sum(point.is_strong for point in some)
    assert f"Faint: {len(some) - strong} of the other {5_000 - strong:,}, chosen at random." in figure.caption
    assert figure.panels[0].to_dict()["title"]["subtitle"].startswith(f"{len(some)} of 5,000 candidates; ")
    whole = search_scatter(some, PAIRS, name="search", title="t", total=len(some))
    assert whole is not None
    assert "Faint: the rest." in whole.caption
