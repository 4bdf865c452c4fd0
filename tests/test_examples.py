"""The examples run; those that need another package as well, in a process of their own, as a user would."""

import csv
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("track_with"))
SMALL: dict[str, dict[str, Any]] = {"own_loop_bfloat16": {"epochs": 1}, "train_and_read": {"epochs": 1}}
"""Arguments of an example's `main` that make it quick."""
SCRIPTS = {"own_loop", "own_loop_compiled", "own_loop_distributed", "own_loop_lightning"}
"""Examples that are slow, or start processes: they run as a reader runs them."""


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem not in SCRIPTS], ids=lambda path: path.stem)
def test_an_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path))["main"](**SMALL.get(path.stem, {}))
    assert capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem in SCRIPTS], ids=lambda path: path.stem)
def test_an_example_runs_as_a_script(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def run_tracked(package: str, arguments: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **variables: str) -> str:
    """Run the example of a package in a folder; the run is in `first`."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    example = str(FOLDER / f"track_with_{package}.py")
    code = f"import runpy; from pathlib import Path; runpy.run_path({example!r})['main'](Path('first'), {arguments})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_history(folder: Path) -> list[dict[str, str]]:
    with (folder / "first" / "history.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_mlflow_stores_the_history_and_the_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In files, which can be read without MLflow."""
    store = tmp_path / "store"
    printed = run_tracked(
        "mlflow", f"{store.as_uri()!r}, epochs=2", tmp_path, monkeypatch, MLFLOW_ALLOW_FILE_STORE="true"
    )
    assert "first: FINISHED" in printed
    [metrics] = store.glob("*/*/metrics")
    history = read_history(tmp_path)
    for name in set(history[0]) - {"epoch"}:
        values = [line.split() for line in (metrics / name).read_text().splitlines()]
        assert [(step, float(value)) for _, value, step in values] == [(r["epoch"], float(r[name])) for r in history]
    assert (metrics / "test_nll").exists()
    assert (metrics.parent / "params" / "method.inputs").read_text() == "2"


@pytest.mark.slow
def test_wandb_stores_the_history_without_a_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_tracked("wandb", "epochs=2", tmp_path, monkeypatch, WANDB_MODE="offline", WANDB_SILENT="true")
    [stored] = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    content = stored.read_bytes()
    last = read_history(tmp_path)[-1]["val_nll"]
    assert all(text in content for text in (b"val_nll", b"test_nll", last[:12].encode()))
