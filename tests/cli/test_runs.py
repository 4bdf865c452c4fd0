"""`sae runs` as a user meets it, without training."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sae.cli.runs import drop_columns
from sae.records.run import RunRecord
from tests.builders import run_config
from tests.cli.test_cli import python, sae
from tests.studies import small_study


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return small_study(tmp_path / "study").record.path


def test_a_table_has_a_row_for_each_run_and_says_why_one_failed(study: Path) -> None:
    code, out, error = sae("runs", study, "--sort", "nll")
    assert (code, error) == (0, "")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    assert [row[1] for row in rows] == ["finished"] * 3 + ["failed", "stopped", "unfinished"]
    assert [row[5] for row in rows[:3]] == ["0.9000", "0.8500", "0.7000"]  # f1, where nll is 1.2, 1.3 and 1.6
    assert rows[0][2] == "MIMMO N=3 K=3 W=1 D=3"
    assert out.startswith(f"6 runs below {study} on digits")
    assert "3 finished, 1 failed" in out
    assert "the loss was nan" in out


def test_the_json_is_one_object_of_all_runs(study: Path) -> None:
    code, out, _ = sae("runs", study, "--json", "--state", "finished", "--method", "sae", "--sort", "flops")
    assert code == 0
    runs = json.loads(out)["runs"]
    assert [run["flops"] for run in runs] == [2000, 4000]
    assert all(Path(run["run"]).is_dir() for run in runs)


def test_a_metric_that_is_sorted_by_is_shown(study: Path) -> None:
    assert "brier" in sae("runs", study, "--sort", "brier")[1]
    assert "brier" not in sae("runs", study)[1]


def test_where_there_are_no_runs_it_says_so(tmp_path: Path, study: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert sae("runs", tmp_path / "empty") == (0, f"no runs below {tmp_path / 'empty'}\n", "")
    assert json.loads(sae("runs", tmp_path / "empty", "--json")[1]) == {"runs": []}
    assert sae("runs", study, "--state", "damaged") == (0, f"none of the 6 runs below {study} match\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent"], "absent does not exist"),
        ([".", "--sort", "nl"], "must be one of run, state, data"),
        ([".", "--state", "done"], "state must be one of finished"),
    ],
)
def test_a_mistake_costs_one_sentence(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, error = sae("runs", *arguments)
    assert (code, out) == (2, "")
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_the_folder_runs_is_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sae("runs")[1] == "no runs below .\n"
    Path("runs").mkdir()
    assert sae("runs")[1] == "no runs below runs\n"


def test_a_narrow_terminal_does_without_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {name: ["x" * 60] for name in ("run", "params", "ended", "time")}
    assert drop_columns(dict(columns), None) == ["params"]  # 200 characters where there is no terminal
    assert drop_columns(columns, "params") == ["ended"]
    assert list(columns) == ["run", "params", "time"]


def test_listing_loads_no_torch(study: Path) -> None:
    run = f"sys.argv = ['sae', 'runs', {str(study)!r}, '--tensorboard']\ntry: sae.cli.main()\nexcept SystemExit: pass\n"
    done = python(f"import sys, sae.cli\n{run}sys.exit('torch' in sys.modules or 'altair' in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_event_files_are_written_for_all_that_have_a_history_and_are_not_at_work(tmp_path: Path) -> None:
    records = [RunRecord.create(tmp_path / name, run_config()) for name in ("a", "busy", "damaged", "new")]
    for record in records[:3]:
        record.write_rows(record.HISTORY, [{"epoch": 1, "val_nll": 0.5}, {"epoch": 2, "val_nll": 0.25}])
    (tmp_path / "damaged" / "history.csv").write_text("epoch\nx\n")
    with records[1].lock():
        code, _, error = sae("runs", tmp_path, "--tensorboard")
    assert code == 0
    assert f"skipped: {tmp_path / 'busy'} is being trained" in error
    assert "damaged/history.csv must hold a row of numbers" in error
    assert "1 of 4 runs have event files" in error
    assert [path.parent.name for path in tmp_path.glob("*/tensorboard")] == ["a"]
    events = EventAccumulator(str(tmp_path / "a" / "tensorboard")).Reload()
    assert [(item.step, item.value) for item in events.Scalars("val/nll")] == [(1, 0.5), (2, 0.25)]


def test_without_tensorboard_the_extra_is_named(study: Path) -> None:
    block = f"sys.modules['tensorboard'] = None; sys.argv = ['sae', 'runs', {str(study)!r}, '--tensorboard']"
    command = [sys.executable, "-c", f"import sys; {block}; from sae.cli import main; main()"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "saensemble[tensorboard]" in done.stderr
