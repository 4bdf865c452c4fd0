import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sae
from sae.analysis.temperature import Temperature, fit_temperature, tempered
from sae.cli import app
from sae.cli.shipping import calibration_rows
from sae.core.errors import ConfigError, OtherModelError
from sae.deploy import export as export_module
from sae.deploy.export import export
from sae.deploy.manifest import DEFAULT_TARGET, Manifest, read_manifest
from sae.deploy.runtime import ClassPrediction, ValuePrediction
from sae.records.evaluation import ShiftEvaluation, ShiftReading
from sae.records.run import RunRecord
from tests.deploy.models import digits

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def calibrated(digits_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    out = tmp_path_factory.mktemp("calibrated") / "model.onnx"
    return out, export(digits_run, out, eval_exits=2, calibrate=True)


def test_the_graph_predicts_at_the_temperature_of_the_manifest(
    calibrated: tuple[Path, Manifest], digits_model: Path
) -> None:
    path, manifest = calibrated
    part = manifest.calibration
    assert part is not None
    assert part.temperature != 1.0
    x = digits().test.inputs[:50]
    raw, scaled = sae.load(digits_model).predict(x), sae.load(path).predict(x)
    assert isinstance(raw, ClassPrediction)
    assert isinstance(scaled, ClassPrediction)
    expected = np.exp(tempered("classification", np.log(raw.probs.astype(np.float64)), part.temperature))
    np.testing.assert_allclose(scaled.probs, expected, atol=2e-5)
    np.testing.assert_array_equal(scaled.labels, raw.labels)
    np.testing.assert_allclose(scaled.disagreement, raw.disagreement, atol=1e-6)
    np.testing.assert_allclose(scaled.entropy, -(expected * np.log(expected)).sum(axis=1), atol=2e-4)


def test_the_temperature_is_the_one_rule_on_the_validation_split(
    calibrated: tuple[Path, Manifest], digits_model: Path
) -> None:
    part, dataset = calibrated[1].calibration, digits()
    raw = sae.load(digits_model).predict(dataset.val.inputs[:])
    assert isinstance(raw, ClassPrediction)
    fitted = fit_temperature("classification", np.log(raw.probs.astype(np.float64)), dataset.val.targets[:])
    assert part is not None
    assert part.temperature == pytest.approx(fitted.value, rel=1e-4)
    assert part.samples == len(dataset.val.targets)


def test_the_manifest_has_the_numbers_before_and_after(calibrated: tuple[Path, Manifest], digits_model: Path) -> None:
    manifest, raw = calibrated[1], read_manifest(digits_model.parent / "manifest.json")
    assert manifest.calibration is not None
    assert manifest.calibration.raw == raw.metrics
    assert manifest.metrics["val"]["nll"] < raw.metrics["val"]["nll"]
    assert manifest.parity.largest_difference <= manifest.parity.tolerance
    assert raw.calibration is None
    assert "calibration" not in {*json.loads(raw.to_json())}
    card = (calibrated[0].parent / "README.md").read_text(encoding="utf-8")
    assert f"T = {manifest.calibration.temperature:.3g}, fitted on {manifest.calibration.samples} validation" in card
    assert "What scaling does under shift was not measured." in card


def test_a_calibrated_model_says_what_scaling_does_under_shift(
    calibrated: tuple[Path, Manifest], digits_run: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(digits_run, tmp_path / "run")
    metrics = {"nll": 0.2, "nll_scaled": 0.5}
    readings = tuple(ShiftReading(eval_exits=k, metrics=metrics, std_over_sets={}, sets=()) for k in range(1, 6))
    measured = ShiftEvaluation(exits=2, num_sets=95, readings=readings)
    RunRecord(run).write_json(RunRecord.SHIFT["test"], measured.to_json())
    found = export(run, tmp_path / "model.onnx", calibrate=True)
    assert found.calibration is not None
    assert found.calibration.under_shift == {"nll": 0.2, "nll_scaled": 0.5}
    sentence = "On corrupted images scaling changes the NLL from 0.2000 to 0.5000."
    assert sentence in (tmp_path / "README.md").read_text(encoding="utf-8")
    assert calibration_rows(found.calibration, ["nll"])[-1] == ["under shift", sentence]


def test_a_calibrated_model_is_another_model(calibrated: tuple[Path, Manifest], digits_run: Path) -> None:
    assert export(digits_run, calibrated[0], eval_exits=2, calibrate=True) == calibrated[1]
    with pytest.raises(OtherModelError, match="precision or calibration"):
        export(digits_run, calibrated[0], eval_exits=2)


def test_a_temperature_at_its_bound_is_not_in_the_graph(
    digits_run: Path, digits_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounded = Temperature(0.05, is_bounded=True, num_samples=359)
    monkeypatch.setattr(export_module, "fit_temperature", lambda *_: bounded)
    words = ["export", str(digits_run), "--out", str(tmp_path / "m.onnx"), "--calibrate", "--eval-exits", "2"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "not scaled: T stopped at the bound 0.05" in " ".join(result.output.split())
    assert (tmp_path / "m.onnx").read_bytes() == digits_model.read_bytes()
    part = read_manifest(tmp_path / "manifest.json").calibration
    assert part is not None
    assert (part.temperature, part.fitted) == (1.0, 0.05)


def test_a_regression_gets_wider_or_narrower_by_its_temperature(table_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.onnx"
    part = export(table_model.parent.parent / "run", out, calibrate=True).calibration
    assert part is not None
    x = np.random.default_rng(0).normal(size=(5, *read_manifest(out.parent / "manifest.json").input.shape))
    raw, scaled = sae.load(table_model).predict(x), sae.load(out).predict(x)
    assert isinstance(raw, ValuePrediction)
    assert isinstance(scaled, ValuePrediction)
    np.testing.assert_allclose(scaled.mean, raw.mean, rtol=1e-5)
    np.testing.assert_allclose(scaled.variance, raw.variance * part.temperature, rtol=1e-4)


def test_adaptive_exits_are_refused_with_a_temperature(digits_run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--calibrate and --adaptive cannot be combined"):
        export(digits_run, tmp_path / "m.onnx", adaptive=DEFAULT_TARGET, calibrate=True)
