from pathlib import Path

import pytest

from sae.analysis.grids import grid_means
from sae.analysis.progress import grid_counts
from sae.analysis.trial_values import read_trials
from tests.results import write_shift
from tests.studies import DEPTH, StudyBuilder, point, sae, small_study


def three(nll: float) -> list[dict[str, float]]:
    return [point(nll, 0.1, 100 * k) for k in range(1, DEPTH + 1)]


def test_a_cell_is_the_mean_of_its_trials_at_the_trained_exits(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(2, 2), three(0.3))
    study.finish(sae(2, 2), three(0.5))
    study.finish(sae(1, 3), three(0.7))
    study.finish({"name": "standard"}, three(0.1))
    rows = {(row["inputs"], row["exits"]): row for row in grid_means(read_trials(study.record.trials()), "nll")}
    assert rows[2, 2] == {"inputs": 2, "exits": 2, "trials": 2, "value": pytest.approx(0.4), "left_out": 0}
    assert (rows[1, 3]["trials"], rows[1, 3]["value"]) == (1, 0.7)
    assert sum(row["trials"] for row in rows.values()) == 3
    assert [
        row["value"] for row in grid_means(read_trials(study.record.trials()), "flops", "test") if row["trials"]
    ] == [
        300,
        200,
    ]


def test_all_cells_are_there_also_of_trials_that_failed(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish(sae(1, 1), three(0.3))
    study.end(sae(4, 2), "failed", error="nan")
    rows = grid_means(read_trials(study.record.trials()), "nll")
    assert [(row["inputs"], row["exits"]) for row in rows] == [(n, k) for n in range(1, 5) for k in range(1, DEPTH + 1)]
    assert [row for row in rows if row["trials"] == 0] == rows[1:]
    assert all(row["value"] is None for row in rows[1:])


def test_cells_count_what_the_study_counts_as_finished(tmp_path: Path) -> None:
    record = small_study(tmp_path / "s").record
    counted = {
        (row["inputs"], row["exits"]): row["finished"] for row in grid_counts(record.trials()) if row["finished"]
    }
    rows = grid_means(read_trials(record.trials()), "nll", "test")
    assert {(row["inputs"], row["exits"]): row["trials"] for row in rows if row["trials"]} == counted


def test_a_grid_is_on_any_split_and_under_shift(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    trials = [study.finish(sae(1, 1), three(nll)) for nll in (0.3, 0.5)]
    write_shift(trials[0].run, [(2.0, 0.1)])
    found = read_trials(study.record.trials())
    values = [grid_means(found, "nll", where)[0] for where in ("val", "test", "shift")]
    assert [row["value"] for row in values] == pytest.approx([0.4, 1.4, 2.0])
    assert [(row["trials"], row["left_out"]) for row in values] == [(2, 0), (2, 0), (1, 1)]


def test_numbers_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    trials = [study.finish(sae(1, 1), three(nll)) for nll in (0.3, 0.5)]
    file = trials[0].run.path / trials[0].run.METRICS
    file.write_text(file.read_text().replace('"nll": 0.3', '"nll": NaN'))
    row = grid_means(read_trials(study.record.trials()), "nll")[0]
    assert (row["trials"], row["value"], row["left_out"]) == (1, 0.5, 1)


def test_a_study_without_sae_trials_has_no_grid(tmp_path: Path) -> None:
    study = StudyBuilder(tmp_path / "s")
    study.finish({"name": "standard"}, three(0.3))
    assert grid_means(read_trials(study.record.trials()), "nll") == []
    assert grid_means([], "nll") == []
