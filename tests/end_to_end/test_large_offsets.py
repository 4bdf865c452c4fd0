"""A table whose numbers are far from 0, such as Unix time, is learnt and predicted as well as one around 0."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from typer.testing import CliRunner

from sae import load
from sae.cli import app
from sae.deploy.runtime import ValuePrediction
from tests.data.samples import write_csv

pytestmark = pytest.mark.long

UNIX_TIME = 1.7e9
"""Neighbouring float32 numbers around it are 128 apart."""
ONE_SAMPLE = 1.5 / 89
"""Rounding may move one of the 89 test samples over the end of its interval."""


def patients(target_offset: float = 0.0, feature_offset: float = 0.0) -> list[dict[str, Any]]:
    bunch = load_diabetes(scaled=False)
    return [
        {
            **{name: value + feature_offset for name, value in zip(bunch.feature_names, row, strict=True)},
            "progression": target + target_offset,
        }
        for row, target in zip(bunch.data.tolist(), bunch.target.tolist(), strict=True)
    ]


def sae(command: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*command.split(), "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def chain(folder: Path, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Train, evaluate, export and predict; return the mean squared errors that each reports."""
    data = write_csv(folder / "data.csv", rows)
    sae(f"train --data {data} --task regression --target progression --epochs 8 --set train.lr=3e-3 --out {folder}/run")
    evaluated = sae(f"evaluate {folder}/run")["metrics"]
    sae(f"export {folder}/run --out {folder}/shipped/model.onnx")
    predicted = sae(f"predict {folder}/shipped/model.onnx {data} --out {folder}/answers.csv --coverage 0.9")
    manifest = json.loads(Path(f"{folder}/shipped/manifest.json").read_text())
    return {
        "evaluated": evaluated["mse"],
        "coverage": evaluated["coverage_90"],
        "nll": evaluated["nll"],
        "shipped": manifest["metrics"]["test"]["mse"],
        "predicted": predicted["mse"],
        "width": predicted["mean_width"],
    }


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Errors on the data without an offset."""
    return chain(tmp_path_factory.mktemp("plain"), patients())


def test_a_large_offset_of_the_target_changes_no_error(plain: dict[str, float], tmp_path: Path) -> None:
    assert plain["evaluated"] < 0.8 * np.var([row["progression"] for row in patients()])
    rows = patients(target_offset=UNIX_TIME)
    assert chain(tmp_path, rows) == pytest.approx(plain, rel=1e-2, abs=ONE_SAMPLE)
    with (tmp_path / "answers.csv").open(encoding="utf-8", newline="") as file:
        means = [float(row["mean"]) for row in csv.DictReader(file)]
    assert len(set(means)) > 400
    inputs = [[row[name] for name in row if name != "progression"] for row in rows]
    predicted = load(tmp_path / "shipped").predict(inputs)
    assert isinstance(predicted, ValuePrediction)
    np.testing.assert_allclose(means, predicted.mean, rtol=0, atol=1e-5 * float(predicted.std.min()))


def test_a_large_offset_of_the_features_changes_no_error(plain: dict[str, float], tmp_path: Path) -> None:
    assert chain(tmp_path, patients(feature_offset=UNIX_TIME)) == pytest.approx(plain, rel=1e-2, abs=ONE_SAMPLE)
