"""`sae verify`: files are those that were written, or the one that was changed is named."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sae.cli import app
from sae.records.run import RunRecord

pytestmark = pytest.mark.long

GOLDEN = Path(__file__).parents[1] / "golden"


def verified(folder: Path, *flags: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["verify", str(folder), *flags])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def run(digits_run: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(digits_run, tmp_path / "run"))


def test_a_run_records_the_hashes_of_what_it_ended_with(run: Path) -> None:
    recorded = json.loads((run / RunRecord.STATUS).read_text())["files_sha256"]
    names = {path.name for path in run.iterdir()} - {"config.yaml", "model.safetensors", "status.json", ".lock"}
    assert recorded == {name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in names}
    code, printed, _ = verified(run)
    assert (code, printed) == (0, f"{run}: {len(names) + 2} files as recorded\n")


@pytest.mark.parametrize("name", ["metrics.json", "model.safetensors", "config.yaml", "history.csv"])
def test_a_changed_or_missing_file_is_named(run: Path, name: str) -> None:
    content = (run / name).read_bytes()
    (run / name).write_bytes(content + b"\n")
    code, printed, said = verified(run)
    assert (code, printed) == (2, "")
    assert said.startswith(f"error: {run / name} was changed: bring the file back")
    (run / name).write_bytes(content)
    assert verified(run)[0] == 0
    if name != "config.yaml":
        (run / name).unlink()
        assert f"{run / name} is missing" in verified(run)[2]


def test_json_says_the_same_of_every_file(run: Path) -> None:
    (run / "metrics.json").write_text("{}")
    code, printed, _ = verified(run, "--json")
    found = json.loads(printed)
    assert (code, found["agrees"]) == (2, False)
    assert [item["file"] for item in found["files"] if item["state"] != "agrees"] == [str(run / "metrics.json")]


def test_what_has_no_recorded_hash_is_said_to_have_none() -> None:
    code, printed, _ = verified(GOLDEN / "run")
    assert code == 0
    assert printed.endswith("not recorded: config.yaml, curves.json, history.csv, metrics.json, model.safetensors\n")


def test_a_model_and_a_study_that_ships_it_are_checked(digits_model: Path, tmp_path: Path) -> None:
    shipped = Path(shutil.copytree(digits_model.parent, tmp_path / "shipped"))
    assert verified(shipped)[:2] == (0, f"{shipped}: 1 file as recorded; not recorded: README.md, manifest.json\n")
    (shipped / "model.onnx").write_bytes((shipped / "model.onnx").read_bytes()[:-1])
    assert f"{shipped / 'model.onnx'} was changed" in verified(shipped)[2]
    study = Path(shutil.copytree(GOLDEN / "study", tmp_path / "study"))
    assert verified(study)[0] == 0
    (study / "shipped" / "model.onnx").unlink()
    assert f"{study / 'shipped' / 'model.onnx'} is missing" in verified(study)[2]


def test_any_other_folder_is_refused(tmp_path: Path) -> None:
    assert "must be the folder of a run, a study or a shipped model" in verified(tmp_path)[2]
