"""New samples are compared with the profile of the training data."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from sae.cli import app
from sae.core.errors import DataError
from sae.deploy.manifest import NAME
from sae.deploy.runtime import load
from sae.deploy.sources import _targets
from tests.data.samples import table_rows, write_csv
from tests.deploy.forged import forge, nan_below


def predicted(model: Path, data: Path) -> tuple[dict[str, Any], list[dict[str, str]], str]:
    out = data.parent / "out.csv"
    result = CliRunner().invoke(app, ["predict", str(model), str(data), "--out", str(out), "--json"])
    assert result.exit_code == 0, result.stderr
    with out.open(newline="") as file:
        return json.loads(result.stdout), list(csv.DictReader(file)), result.stderr


@pytest.mark.long
def test_rows_far_outside_of_training_are_named_counted_and_said(table_model: Path, tmp_path: Path) -> None:
    rows = [{**row, "size": index % 5} for index, row in enumerate(table_rows(9))]
    rows[2]["size"], rows[5]["size"] = 1e7, -1e7
    summary, found, error = predicted(table_model, write_csv(tmp_path / "new.csv", rows))
    assert [row["unusual"] for row in found] == ["", "", "size", "", "", "size", "", "", ""]
    assert summary["unusual"] == 2
    assert "2 of 9 rows are unusual: 'size' outside what training saw (0 to 4)" in error


@pytest.mark.long
def test_usual_rows_are_not_said(table_model: Path) -> None:
    summary, found, error = predicted(table_model, table_model.parents[1] / "data.csv")
    assert {row["unusual"] for row in found} == {""}
    assert "unusual" not in summary
    assert "unusual" not in error


@pytest.mark.long
def test_the_profile_is_that_of_the_run(table_model: Path) -> None:
    run = json.loads((table_model.parents[1] / "run" / "data.json").read_text())
    manifest = json.loads((table_model.parent / NAME).read_text())
    assert manifest["profile"] == run["profile"]
    assert [column["name"] for column in run["profile"]["columns"]] == [
        column["name"] for column in manifest["input"]["columns"]
    ]


def test_a_model_without_a_profile_has_no_such_column(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=np.zeros((2, 16, 16), np.uint8))
    _, found, _ = predicted(forge(tmp_path / "model", nan_below(0)), tmp_path / "x.npz")
    assert "unusual" not in found[0]


@pytest.mark.parametrize(
    ("names", "given", "wanted"),
    [
        (("1", "2", "3"), [3, 1, 2], [2, 0, 1]),
        (("0", "1", "10", "2"), [10, 2, 0], [2, 3, 0]),
        (("cat", "dog"), [1, 0], [1, 0]),
    ],
)
def test_labels_are_the_numbers_by_which_training_called_the_classes(
    tmp_path: Path, names: tuple[str, ...], given: list[int], wanted: list[int]
) -> None:
    manifest = load(forge(tmp_path / "model", nan_below(0))).manifest
    manifest = manifest.model_copy(update={"target": manifest.target.model_copy(update={"class_names": names})})
    assert _targets(np.array(given), manifest, "labels").tolist() == wanted
    with pytest.raises(DataError, match="labels must be whole numbers"):
        _targets(np.array([*given, 77]), manifest, "labels")
