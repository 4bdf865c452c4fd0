import subprocess
import sys
from pathlib import Path

import pytest

from sae.analysis.run_list import describe, find_runs, list_runs, number_of, select_runs, sort_runs
from sae.core.errors import ConfigError, RecordError
from sae.core.objectives import COSTS
from sae.records.run import RunRecord
from tests.builders import run_config
from tests.results import run_of, small_config
from tests.studies import small_study


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study of six trials, and a run that has done one epoch."""
    small_study(tmp_path / "study")
    run = RunRecord.create(tmp_path / "alone" / "x", run_config(seed=7))
    run.write_rows(run.HISTORY, [{"epoch": 1, "loss": 0.5}])
    return tmp_path


def test_runs_of_studies_and_others_are_found_by_their_paths(folder: Path) -> None:
    found = list_runs(folder)
    paths = [str(run.record.path) for run in found]
    assert len(paths) == 7
    assert paths == sorted(paths)


def test_hidden_folders_and_strange_configs_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("data: digits\n")
    RunRecord.create(tmp_path / ".trash" / "x", run_config())
    RunRecord.create(tmp_path / "x" / "y", run_config())
    assert [run.path for run in find_runs(tmp_path)] == [tmp_path / "x" / "y"]


def test_a_run_folder_lists_itself(folder: Path) -> None:
    assert [run.record.path for run in list_runs(folder / "alone" / "x")] == [folder / "alone" / "x"]


def test_a_folder_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="absent does not exist"):
        list_runs(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="file is not a folder"):
        list_runs(tmp_path / "file")


def test_a_finished_run_is_described_with_its_test_metrics_at_the_trained_k(folder: Path) -> None:
    run = next(run for run in list_runs(folder) if run.state == "finished")
    facts = describe(run)
    test = run.record.read_evaluation().test
    assert facts["metrics"] == test.metrics
    assert {key: facts[key] for key in COSTS} == test.chosen.costs
    assert {key: facts[key] for key in ("data", "method", "kind", "settings", "seed", "seconds")} == {
        "data": "digits",
        "method": "sae",
        "kind": "I/B",
        "settings": "N=2 K=2 W=1 D=3",
        "seed": 0,
        "seconds": 60.0,
    }
    assert facts["epochs"] == facts["planned_epochs"] == 2


def test_an_unfinished_run_is_described_with_the_epochs_that_are_done(folder: Path) -> None:
    facts = describe(list_runs(folder / "alone")[0])
    assert (facts["state"], facts["epochs"], facts["planned_epochs"]) == ("unfinished", 1, 2)
    assert facts["metrics"] == {}
    assert facts["flops"] is None


def test_a_failed_run_is_listed_with_its_reason(folder: Path) -> None:
    (failed,) = select_runs(list_runs(folder), states=["failed"])
    assert failed.error == "the loss was nan"


@pytest.mark.parametrize("file", [RunRecord.CONFIG, RunRecord.STATUS, RunRecord.METRICS])
def test_a_damaged_run_is_listed_and_hides_no_other(file: str, folder: Path) -> None:
    run = next(run for run in list_runs(folder) if run.state == "finished")
    text = f"{RunRecord.MARK}\ndata: [" if file == RunRecord.CONFIG else '{"test": {}, "state": "?"}'
    (run.record.path / file).write_text(text)
    found = list_runs(folder)
    (damaged,) = select_runs(found, states=["damaged"])
    assert len(found) == 7
    assert file in str(damaged.error)
    facts = describe(damaged)
    assert (facts["state"], facts["epochs"], facts["metrics"], facts["error"]) == ("damaged", 0, {}, damaged.error)


def test_a_run_whose_folder_is_locked_by_a_process_is_running(folder: Path) -> None:
    run = RunRecord(folder / "alone" / "x")
    lock = "with Folder(Path(sys.argv[1])).lock(): print(flush=True); input()"
    code = f"import sys\nfrom pathlib import Path\nfrom sae.records.folder import Folder\n{lock}"
    process = subprocess.Popen(
        [sys.executable, "-c", code, run.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    assert list_runs(run.path)[0].state == "running"
    process.communicate("\n")
    assert list_runs(run.path)[0].state == "unfinished"


def test_looking_at_runs_writes_nothing(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    list_runs(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize(
    ("column", "first"), [("nll", "lowest"), ("f1", "highest"), ("flops", "lowest"), ("ended", "highest")]
)
def test_the_best_come_first_and_those_without_a_number_last(column: str, first: str, folder: Path) -> None:
    ordered = sort_runs(list_runs(folder), column)
    values = [number_of(run, column) for run in ordered]
    there = [value for value in values if value is not None]
    assert values == sorted(there, reverse=first == "highest") + [None] * (len(values) - len(there))
    assert 3 <= len(there) < len(values)


@pytest.mark.parametrize("useless", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_come_last(useless: float) -> None:
    strange, *numbered = (run_of(small_config(), {"nll": number}) for number in (useless, 0.3, 0.1, 0.2))
    ordered = sort_runs([numbered[0], strange, *numbered[1:]], "nll")
    assert ordered == [numbered[1], numbered[2], numbered[0], strange]


def test_runs_are_sorted_by_texts_too(folder: Path) -> None:
    kinds = [str(describe(run)["kind"]) for run in sort_runs(list_runs(folder), "kind")]
    assert kinds == sorted(kinds)


def test_an_unknown_column_is_named_with_the_known_ones(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be one of run, state, .*flops.*; got 'nl', did you mean nll"):
        sort_runs([], "nl")


def test_runs_are_chosen_by_state_method_and_class(folder: Path) -> None:
    found = list_runs(folder)
    assert len(select_runs(found, states=["finished", "stopped"])) == 4
    assert [describe(run)["method"] for run in select_runs(found, methods=["standard"])] == ["standard"]
    assert {describe(run)["kind"] for run in select_runs(found, methods=["SE", "standard"])} == {"SE", "standard"}
    with pytest.raises(ConfigError, match="state must be one of finished, stopped, failed, running, unfinished"):
        select_runs(found, states=["done"])
    with pytest.raises(ConfigError, match=r"method must be one of .*MIMMO.*sae"):
        select_runs(found, methods=["sea"])
