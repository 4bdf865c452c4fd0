from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from sae.core.objectives import Objective, objective, objectives
from sae.report.figures.search import panel_axes, pareto_figure
from sae.report.labels import all_kinds
from tests.report.figures.test_search import points

TASK = "classification"
NLL, ECE, FLOPS = objectives(["nll", "cc_ece", "flops"], TASK)


def rows() -> list[dict[str, Any]]:
    """Candidates as the command line passes them."""
    return [
        {"kind": one.kind, "label": one.label, "front": one.is_strong, "pick": one.is_pick, **one.values}
        for one in points()
    ]


def test_every_kind_has_its_own_look() -> None:
    assert len({(kind.colour, kind.marker) for kind in all_kinds().values()}) == len(all_kinds()) == 9
    assert {kind.colour for kind in all_kinds().values() if kind.label.startswith("SAE")} == {"#C55A11"}


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
    pareto_figure(rows(), chosen, history, title="digits").save(tmp_path / "figure.png")
    with Image.open(tmp_path / "figure.png") as image:
        assert image.width > 400
        colours = {colour for _, colour in image.convert("RGB").getcolors(10_000_000) or []}
    assert (0xC5, 0x5A, 0x11) in colours
    assert (0x59, 0x59, 0x59) in colours


def test_one_trial_alone_can_be_drawn(tmp_path: Path) -> None:
    only = [{**rows()[0], "front": True, "pick": True}]
    pareto_figure(only, (NLL, ECE), [{"trials": 1, "hypervolume": 1.0}], title="digits").save(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_points_without_details_have_no_command(tmp_path: Path) -> None:
    pareto_figure(rows(), (NLL, ECE), [{"trials": 1, "hypervolume": 1.0}], title="digits").save(tmp_path / "figure.svg")
    assert "train it" not in (tmp_path / "figure.svg").read_text()
