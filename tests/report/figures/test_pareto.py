from pathlib import Path

import pytest
from PIL import Image

from sae.analysis.selection import Selection, select
from sae.config.methods import all_kinds
from sae.core.objectives import objectives
from sae.report.figures.search import panel_axes, pareto_figure
from tests.studies import StudyBuilder, sae
from tests.study_stages import measured, searched_study

TASK = "classification"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyBuilder:
    return searched_study(tmp_path_factory.mktemp("searched") / "study")


def chosen_by(study: StudyBuilder, *names: str) -> Selection:
    return select(study.record, names=names)


def test_every_kind_has_its_own_look() -> None:
    assert len({(kind.colour, kind.marker) for kind in all_kinds().values()}) == len(all_kinds()) == 11
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


@pytest.mark.parametrize("names", [("nll", "cc_ece", "flops"), ("flops",), ("nll",)])
def test_the_figure_is_saved_without_a_browser(names: tuple[str, ...], study: StudyBuilder, tmp_path: Path) -> None:
    pareto_figure(chosen_by(study, *names), title="digits").save(tmp_path / "figure.png")
    with Image.open(tmp_path / "figure.png") as image:
        assert image.width > 400
        colours = {colour for _, colour in image.convert("RGB").getcolors(10_000_000) or []}
    assert (0xC5, 0x5A, 0x11) in colours
    assert (0x59, 0x59, 0x59) in colours


def test_one_trial_alone_can_be_drawn(tmp_path: Path) -> None:
    alone = StudyBuilder(tmp_path / "study")
    alone.finish(sae(1, 1), [measured(0.5, 0.1, 1000)])
    pareto_figure(chosen_by(alone, "nll", "cc_ece"), title="digits").save(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_points_without_details_have_no_command(study: StudyBuilder, tmp_path: Path) -> None:
    pareto_figure(chosen_by(study, "nll", "cc_ece"), title="digits").save(tmp_path / "figure.svg")
    assert "train it" not in (tmp_path / "figure.svg").read_text()
