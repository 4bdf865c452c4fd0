from pathlib import Path

import pytest

from sae.analysis.selection import Selection, select
from sae.analysis.ties import fold_ties
from tests.studies import StudyBuilder, point


def selection_of(path: Path, points: list[tuple[float, float, int]]) -> Selection:
    study = StudyBuilder(path)
    for numbers in points:
        study.finish({"name": "standard"}, [point(*numbers)])
    return select(study.record)


def sizes(selection: Selection, tolerance: float = 0.01) -> list[int]:
    rows = fold_ties(selection.front, selection.objectives, "classification", tolerance=tolerance)
    return [len(row.others) + 1 for row in rows]


def test_candidates_within_a_hundredth_of_the_cost_and_the_margins_are_one_row(tmp_path: Path) -> None:
    found = selection_of(tmp_path / "s", [(0.300, 0.100, 10_000), (0.308, 0.098, 9_950), (0.299, 0.101, 10_040)])
    assert len(found.front) == 3
    assert sizes(found) == [3]
    assert sizes(found, tolerance=0.0) == [1, 1, 1]
    assert sizes(found, tolerance=0.001) == [1, 1, 1]


@pytest.mark.parametrize("other", [(0.285, 0.110, 10_000), (0.295, 0.120, 10_000), (0.299, 0.101, 9_800)])
def test_a_difference_that_matters_in_one_objective_is_a_row_of_its_own(
    other: tuple[float, float, int], tmp_path: Path
) -> None:
    assert sizes(selection_of(tmp_path / "s", [(0.300, 0.100, 10_000), other])) == [1, 1]


def test_the_pick_stands_for_its_row(tmp_path: Path) -> None:
    found = selection_of(tmp_path / "s", [(0.300, 0.100, 10_000), (0.301, 0.099, 9_990)])
    for pick in found.front:
        (row,) = fold_ties(found.front, found.objectives, "classification", pick)
        assert row.candidate is pick
