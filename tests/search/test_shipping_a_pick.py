"""`sae export` of a study's pick: what it says of simple baselines, which are measured once."""

import json
import shutil
from pathlib import Path

import pytest

from sae.deploy import receipt
from sae.records.receipt import Receipt, read_receipt
from sae.records.study import StudyRecord
from tests.cli.test_cli import sae

pytestmark = pytest.mark.long


def export(study: Path, out: Path) -> Receipt:
    code, _, error = sae("export", study, "--out", out / "model.onnx")
    assert code == 0, error
    return read_receipt(out / "receipt.json")


def test_baselines_of_a_study_are_measured_once_and_told_everywhere(
    finished_study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study"
    shutil.copytree(finished_study, study)
    assert json.loads(sae("pick", study, "--json")[1])["baselines"] is None
    first = export(study, tmp_path / "a")
    assert first.verdict is not None  # the networks were trained for an instant
    assert [one.name for one in first.baselines] == ["class shares", "logistic regression on 16 × 16 pixels"]
    assert first.verdict in (tmp_path / "a" / "README.md").read_text()
    assert json.loads(sae("pick", study, "--json")[1])["baselines"]["verdict"] == first.verdict
    assert sae("pick", study)[1].replace("\n", " ").startswith(first.verdict)
    monkeypatch.delattr(receipt, "measure_baselines")
    assert export(study, tmp_path / "b").baselines == first.baselines


def test_a_receipt_of_an_earlier_version_gets_baselines_and_keeps_its_times(
    finished_study: Path, tmp_path: Path
) -> None:
    study, written = tmp_path / "study", tmp_path / "a" / "receipt.json"
    shutil.copytree(finished_study, study)
    first = export(study, tmp_path / "a")
    earlier = first.model_copy(update={"baselines": (), "verdict": None})
    written.write_text(json.dumps(earlier.to_json()))
    (study / StudyRecord.BASELINES).unlink()
    assert export(study, tmp_path / "a") == first
