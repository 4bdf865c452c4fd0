from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from sae.objectives import Objective, objective, objectives
from sae.report.kinds import LOOKS
from sae.report.pareto_figure import panel_axes, pareto_figure, pareto_scatter, within_view

TASK = "classification"
NLL, ECE, FLOPS = objectives(["nll", "cc_ece", "flops"], TASK)


def points() -> list[dict[str, Any]]:
    return [
        {
            "kind": kind,
            "label": f"{kind}/0",
            "front": index % 2 == 0,
            "pick": index == 2,
            "nll": 0.1 + 0.02 * index,
            "cc_ece": 0.05 - 0.004 * index,
            "flops": 1000 * 2**index,
            "params": 500,
        }
        for index, kind in enumerate(LOOKS)
    ]


def test_every_kind_has_its_own_look() -> None:
    assert len({(look.colour, look.shape) for look in LOOKS.values()}) == len(LOOKS) == 9
    assert {look.colour for kind, look in LOOKS.items() if look.name.startswith("SAE")} == {"#C55A11"}


def test_every_configuration_is_drawn_with_the_look_of_its_kind() -> None:
    chart = pareto_scatter(points(), ECE, NLL).to_dict()
    rows = next(iter(chart["datasets"].values())) if "datasets" in chart else chart["data"]["values"]
    assert sorted(row["method"] for row in rows) == sorted(look.name for look in LOOKS.values())
    scale = chart["layer"][0]["encoding"]["shape"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {look.name: look.shape for look in LOOKS.values()}


def test_costs_are_on_a_logarithmic_axis() -> None:
    encoding = pareto_scatter(points(), FLOPS, NLL).to_dict()["layer"][0]["encoding"]
    assert encoding["x"]["scale"]["type"] == "log"
    assert "type" not in encoding["y"]["scale"]


def test_what_is_far_worse_is_out_of_view_and_counted() -> None:
    bad = {**points()[1], "nll": 50.0}
    assert within_view([*points(), bad], ECE, NLL) == points()
    chart = pareto_scatter([*points(), bad], ECE, NLL).to_dict()
    assert chart["title"]["subtitle"] == "1 far worse out of view"
    on_front = pareto_scatter([*points(), {**bad, "front": True}], ECE, NLL).to_dict()
    assert on_front["title"]["subtitle"] == "1 far worse out of view, 1 of the front"


def test_a_configuration_without_a_value_is_left_out() -> None:
    lacking = {key: value for key, value in points()[0].items() if key != "nll"}
    assert within_view([lacking, *points()], ECE, NLL) == points()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["nll", "cc_ece", "flops"], [("cc_ece", "nll"), ("flops", "nll")]),
        (["nll", "flops"], [("flops", "nll")]),
        (["f1"], [("flops", "f1")]),
        (["f1", "flops", "cc_ece", "nll"], [("cc_ece", "f1"), ("flops", "f1")]),
        (["flops", "params"], [("params", "flops")]),
        (["flops", "nll"], [("nll", "flops"), ("params", "flops")]),
        (["flops"], [("params", "flops")]),
    ],
)
def test_panels_show_the_first_objective_against_a_metric_and_a_cost(
    names: list[str], expected: list[tuple[str, str]]
) -> None:
    assert [(x.name, y.name) for x, y in panel_axes(objectives(names, TASK))] == expected


@pytest.mark.parametrize("chosen", [(NLL, ECE, FLOPS), (FLOPS,), (objective("nll", TASK),)])
def test_the_figure_is_saved_without_a_browser(chosen: tuple[Objective, ...], tmp_path: Path) -> None:
    history = [{"trials": index, "hypervolume": 0.1 * index} for index in range(1, 6)]
    pareto_figure(points(), chosen, history, title="digits").save(tmp_path / "figure.png")
    with Image.open(tmp_path / "figure.png") as image:
        assert image.width > 400
        colours = {colour for _, colour in image.convert("RGB").getcolors(10_000_000) or []}
    assert (0xC5, 0x5A, 0x11) in colours
    assert (0x59, 0x59, 0x59) in colours


def test_one_trial_alone_can_be_drawn(tmp_path: Path) -> None:
    only = [{**points()[0], "front": True, "pick": True}]
    pareto_figure(only, (NLL, ECE), [{"trials": 1, "hypervolume": 1.0}], title="digits").save(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000
