from pathlib import Path

import pytest

from sae.analysis.selection import Selection, select
from tests.studies import StudyBuilder, point, sae


@pytest.fixture
def selection(tmp_path: Path) -> Selection:
    """Three ensembles: the first has no nll to speak of, the third is best in it."""
    study = StudyBuilder(tmp_path / "s", max={"flops": 5000})
    study.finish(sae(1, 1), [point(0.5, 0.1, 1000)])
    for nll in (0.1234, 0.4, 0.2):
        trial = study.finish({"name": "ensemble"}, [point(nll, 0.1, 40_000)])
        path = trial.run.path / trial.run.METRICS
        path.write_text(path.read_text().replace("0.1234", "NaN"))
    return select(study.record)


def test_the_best_of_a_method_is_by_the_first_objective_whatever_the_limits(selection: Selection) -> None:
    chosen, _ = selection.pick()
    best = selection.best_of("ensemble", chosen)
    assert best is not None
    assert (chosen.trial.name, best.trial.name) == ("sae/0", "ensemble/2")


def test_nothing_stands_beside_a_pick_of_its_own_method_or_of_one_that_was_not_tried(selection: Selection) -> None:
    chosen, _ = selection.pick()
    assert selection.best_of("sae", chosen) is None
    assert selection.best_of("standard", chosen) is None
