"""Signals as a user ships them: exported in every form, and predicted from `.npz` files, tables and arrays."""

import csv
from pathlib import Path

import numpy as np
import pytest

import sae
from sae.core.errors import DataError
from sae.deploy.export import export
from sae.deploy.manifest import DEFAULT_TARGET, read_manifest
from tests.data.samples import signal_arrays, write_csv, write_npz
from tests.deploy.test_predict import predicted, refused

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def model(signal_run: Path) -> Path:
    out = signal_run.parent / "shipped" / "model.onnx"
    export(signal_run, out, adaptive=DEFAULT_TARGET)
    return out


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "predictions.csv"


def test_a_manifest_describes_signals(model: Path) -> None:
    manifest = read_manifest(model.parent / "manifest.json")
    assert (manifest.input.name, manifest.input.shape, manifest.input.columns) == ("signals", (2, 9), None)
    assert manifest.network.backbone == "conv1d"
    assert manifest.target.class_names == ("run", "stand", "walk")


def test_an_npz_file_of_signals_is_predicted_with_its_accuracy(signal_run: Path, model: Path, out: Path) -> None:
    summary, rows = predicted(model, signal_run.parent / "data.npz", "--coverage", 0.7, out=out)
    assert summary["samples"] == len(rows) == 12
    assert summary["accuracy"] == pytest.approx(np.mean([row["class"] == row["true_class"] for row in rows]))
    assert {row["true_class"] for row in rows} == {"run", "stand", "walk"}


def test_signals_leave_early(signal_run: Path, model: Path, out: Path) -> None:
    summary, _ = predicted(model, signal_run.parent / "data.npz", "--adaptive", out=out)
    assert summary["samples"] == 12


def test_signals_are_quantised(signal_run: Path, tmp_path: Path, out: Path) -> None:
    export(signal_run, tmp_path / "model.onnx", int8=True)
    summary, _ = predicted(tmp_path / "model.onnx", signal_run.parent / "data.npz", out=out)
    assert summary["samples"] == 12


@pytest.mark.parametrize("names", [("signals", "labels"), ("X", "y"), ("x_test", "y_test")])
def test_signals_are_found_under_every_name(
    model: Path, tmp_path: Path, out: Path, names: tuple[str, str], signal_run: Path
) -> None:
    given = signal_arrays()
    labels = np.array(["run", "stand", "walk"])[given["test_labels"]]
    data = write_npz(tmp_path / "a.npz", {names[0]: given["test_signals"], names[1]: labels})
    first, rows = predicted(model, data, out=out)
    again, other_rows = predicted(model, signal_run.parent / "data.npz", out=out)
    assert first["accuracy"] == again["accuracy"]
    assert rows == other_rows


def test_what_is_no_signal_of_the_model_is_refused(model: Path, tmp_path: Path, out: Path) -> None:
    given = signal_arrays()["test_signals"]
    given[3, 1, 7] = np.nan
    broken = write_npz(tmp_path / "a.npz", {"signals": given})
    assert "got nan in sample 3, channel 1, time step 7" in refused(model, broken, out=out)
    short = write_npz(tmp_path / "b.npz", {"signals": given[:, :, :5]})
    assert "signals must be (batch, 2, 9), got (12, 2, 5)" in refused(model, short, out=out)
    other = write_npz(tmp_path / "c.npz", {"signals": given[:2, :, :] * 0, "labels": np.array(["run", "fly"])})
    assert "classes must be those seen in training, got 'fly' in labels of" in refused(model, other, out=out)
    table = write_csv(tmp_path / "t.csv", [{"t1": 1}])
    assert "this model predicts from an .npz file, got" in refused(model, table, out=out)


def test_a_single_signal_needs_a_batch(model: Path) -> None:
    with pytest.raises(DataError, match=r"got \(2, 9\): a single signal needs a batch, x\[None\]"):
        sae.load(model).predict(np.zeros((2, 9)))


def test_a_table_of_signals_is_read_by_the_names_of_its_columns(series_model: Path, tmp_path: Path, out: Path) -> None:
    data = series_model.parents[1] / "data.csv"
    summary, rows = predicted(series_model, data, "--coverage", 0.8, out=out)
    assert summary["samples"] == 40
    assert "mse" in summary
    with data.open(newline="") as file:
        shuffled = [dict(reversed(row.items())) | {"more": "x"} for row in csv.DictReader(file)]
    _, other_rows = predicted(series_model, write_csv(tmp_path / "t.csv", shuffled), out=out)
    assert [row["mean"] for row in other_rows] == [row["mean"] for row in rows]


def test_a_table_of_signals_with_a_missing_value_is_refused(series_model: Path, tmp_path: Path, out: Path) -> None:
    rows = [dict.fromkeys([f"t{step}" for step in range(6)], "1") | {"t2": value} for value in ("1", "")]
    broken = write_csv(tmp_path / "b.csv", rows)
    assert "must have no missing values, as in training, got one in row 2" in refused(series_model, broken, out=out)


def test_signals_of_one_channel_need_no_channel(series_model: Path, tmp_path: Path, out: Path) -> None:
    data = series_model.parents[1] / "data.csv"
    _, rows = predicted(series_model, data, out=out)
    values = np.genfromtxt(data, delimiter=",", names=True)
    signals = np.stack([values[f"t{step}"] for step in range(6)], axis=1)
    _, other_rows = predicted(series_model, write_npz(tmp_path / "a.npz", {"signals": signals}), out=out)
    assert [row["mean"] for row in other_rows] == [row["mean"] for row in rows]
