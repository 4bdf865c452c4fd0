from pathlib import Path

import pytest

from sae.analysis.candidates import Candidate
from sae.analysis.selection import Selection, select
from sae.config.methods import all_kinds
from sae.core.table import Cell
from sae.report.tables import class_fronts_table
from tests.studies import StudyBuilder, point, sae, small_study

TASK = "classification"


def values(selection: Selection) -> dict[str, tuple[object, ...]]:
    """By class, the row of the table."""
    rows = class_fronts_table(selection, TASK).rows
    return {str(row[0].value): tuple(cell.value for cell in row[1:]) for row in rows}


def test_each_class_has_a_row_with_its_own_front_and_its_part_of_the_front_of_all(tmp_path: Path) -> None:
    selection = select(small_study(tmp_path / "s").record)
    assert values(selection) == {
        "Standard": (1, 1, 1, 0.6),
        "SAE: I/B": (3, 2, 2, 0.3),  # at K′ = 3 it is beaten by itself at K′ = 2
        "SAE: MIMMO": (3, 3, 1, 0.2),
    }


def beaten(one: Candidate, others: list[Candidate]) -> bool:
    """By another in every objective, and in one truly."""
    keys = ("nll", "cc_ece", "flops")
    mine = [one.values[key] for key in keys]
    theirs = ([other.values[key] for key in keys] for other in others)
    return any(rival != mine and all(a <= b for a, b in zip(rival, mine, strict=True)) for rival in theirs)


def test_the_fronts_are_those_of_a_loop_over_pairs(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    for step in range(12):
        nll, ece = 0.2 + 0.07 * (step * 5 % 12), 0.02 + 0.01 * (step * 7 % 12)
        settings = sae(1 + step % 2, 2) if step % 3 else {"name": "standard"}
        study.finish(settings, [point(nll + 0.01 * k, ece, 1000 * (k + 1) + step) for k in range(3 if step % 3 else 1)])
    selection = select(study.record)
    everything = selection.candidates
    for kind, row in values(selection).items():
        own = [item for item in everything if all_kinds()[item.kind].label == kind]
        front = [item for item in own if not beaten(item, own)]
        best = min(item.values["nll"] for item in own)
        assert row == (len(own), len(front), sum(not beaten(item, everything) for item in front), best)


def test_the_best_class_is_strong(tmp_path: Path) -> None:
    rows = class_fronts_table(select(small_study(tmp_path / "s").record), TASK).rows
    assert [row[-1].strong for row in rows] == [False, False, True]


def test_a_class_outside_the_limits_has_no_front_and_no_best(tmp_path: Path) -> None:
    selection = select(small_study(tmp_path / "s").record, maximum={"flops": 950})
    table = class_fronts_table(selection, TASK)
    assert values(selection)["SAE: MIMMO"] == (3, 0, 0, None)
    assert table.rows[-1][-1] == Cell(None)
    assert "within the limits" in table.caption


@pytest.mark.parametrize(
    ("names", "title", "best"), [(("flops", "nll"), "Best MFLOPs", 900e-6), (("f1", "flops"), "Best F1", 0.9)]
)
def test_the_best_is_in_the_unit_and_direction_of_the_first_objective(
    names: tuple[str, str], title: str, best: float, tmp_path: Path
) -> None:
    table = class_fronts_table(select(small_study(tmp_path / "s").record, names=names), TASK)
    assert table.columns[-1].title == title
    (strong,) = [row[-1] for row in table.rows if row[-1].strong]
    assert strong.value == pytest.approx(best)
