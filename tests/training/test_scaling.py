"""Metrics after temperature scaling, as every run records them."""

from pathlib import Path

import pytest
import torch

from sae.analysis import temperature
from sae.analysis.bootstrap import compare_samples
from sae.analysis.contestants import read_contestant
from sae.core.objectives import objective
from sae.core.predictive import Categorical
from sae.data.batches import evaluation_batches
from sae.data.corruptions import CorruptedImages
from sae.deploy.export import export
from sae.measure.calibration import calibrated, fit_temperature
from sae.measure.metrics import cc_ece, ece, nll
from sae.records.run import RunRecord
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.predictions import keep_predictions
from sae.training.run import preparation, restore, train
from sae.training.run_evaluation import evaluate, measure_shift
from tests.builders import run_config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return train(run_config(train={"epochs": 3, "lr": 1e-2}), tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> RunRecord:
    return train(run_config(data={"name": "diabetes"}), tmp_path_factory.mktemp("runs") / "regression")


def tempered_by(predictive: Categorical, temperature: float) -> Categorical:
    found = calibrated(predictive, temperature)
    assert isinstance(found, Categorical)
    return found


@pytest.mark.parametrize("name", ["run", "regression"])
def test_on_test_data_they_are_those_of_calibrate(name: str, request: pytest.FixtureRequest) -> None:
    record: RunRecord = request.getfixturevalue(name)
    again = evaluate(record.path, "test", calibrate=True)
    for reading in again.readings:
        assert reading.calibrated is not None
        recorded = record.read_evaluation().test.at(reading.eval_exits).metrics
        assert recorded["nll_scaled"] == pytest.approx(reading.calibrated["nll"])
        assert recorded == pytest.approx(reading.metrics)


def test_calibration_errors_on_test_data_are_those_of_calibrate(run: RunRecord) -> None:
    again = evaluate(run.path, "test", calibrate=True)
    for reading in again.readings:
        assert reading.calibrated is not None
        assert reading.metrics["ece_scaled"] == pytest.approx(reading.calibrated["ece"])
        assert reading.metrics["cc_ece_scaled"] == pytest.approx(reading.calibrated["cc_ece"])


def test_on_validation_data_each_sample_is_scaled_by_a_temperature_fitted_without_it(run: RunRecord) -> None:
    method, dataset = restore(run)
    labels = torch.from_numpy(dataset.val.targets)
    outputs = member_outputs(method, evaluation_batches(dataset.val.inputs, preparation(dataset, "cpu")))
    fold_of = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0)) % 5
    for reading in run.read_evaluation().val.readings:
        predictive = predictive_at(method, outputs, reading.eval_exits)
        assert isinstance(predictive, Categorical)
        log_probs = torch.empty_like(predictive.log_probs, dtype=torch.float64)
        for fold in range(5):
            kept = fold_of != fold
            temperature = fit_temperature(Categorical(predictive.log_probs[kept]), labels[kept]).value
            log_probs[~kept] = tempered_by(predictive, temperature).log_probs[~kept]
        for measure in (nll, ece, cc_ece):
            expected = measure(Categorical(log_probs), labels)
            assert reading.metrics[f"{measure.__name__}_scaled"] == pytest.approx(expected, rel=1e-4)


def test_under_shift_the_temperature_of_the_clean_validation_split_is_used(run: RunRecord) -> None:
    shift = measure_shift(run.path, "test", [("fog", 3)])
    method, dataset = restore(run)
    prepare = preparation(dataset, "cpu")
    fitting = predictive_at(method, member_outputs(method, evaluation_batches(dataset.val.inputs, prepare)), 1)
    temperature = fit_temperature(fitting, torch.from_numpy(dataset.val.targets)).value
    corrupted = CorruptedImages(dataset.test.inputs).get("fog", 3)
    predictive = predictive_at(method, member_outputs(method, evaluation_batches(corrupted, prepare)), 1)
    assert isinstance(predictive, Categorical)
    expected = nll(tempered_by(predictive, temperature), torch.from_numpy(dataset.test.targets))
    assert shift.at(1).metrics["nll_scaled"] == pytest.approx(expected, rel=1e-4)


def test_a_paused_run_has_them_for_a_search_to_judge(tmp_path: Path) -> None:
    record = train(run_config(train={"epochs": 3}), tmp_path / "run", until=1)
    assert "nll_scaled" in record.read_interim().val.chosen.metrics


@pytest.mark.parametrize("key", ["nll_scaled", "ece_scaled", "cc_ece_scaled", "nll_scaled@shift"])
def test_they_are_objectives_with_the_bounds_of_the_plain_metric(key: str) -> None:
    plain = objective(key.replace("_scaled", ""), "classification")
    scaled = objective(key, "classification")
    assert (scaled.quantity.maximise, scaled.quantity.lower, scaled.quantity.upper) == (
        plain.quantity.maximise,
        plain.quantity.lower,
        plain.quantity.upper,
    )
    assert "scaled" in scaled.label


def test_a_temperature_at_its_bound_is_used_nowhere(
    run: RunRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one run 1.312 was reported and 1.382 shipped, because only the export left such a temperature out."""
    monkeypatch.setattr(temperature, "COLDEST", 0.9999)
    monkeypatch.setattr(temperature, "HOTTEST", 1.0001)
    evaluation = evaluate(run.path, "test", calibrate=True).evaluation
    again = evaluation.at(evaluation.exits)
    assert again.calibrated is not None
    assert str(again.temperature_remark).startswith("T stopped at the bound")
    keep_predictions(run.path)
    rival = read_contestant([run.path])
    (compared,) = compare_samples(rival, rival, ["nll_scaled"], resamples=100)
    shifted = measure_shift(run.path, "test", [("fog", 3)]).at(1).metrics
    held_out = evaluate(run.path, "val").evaluation.at(1).metrics
    shipped = export(run.path, tmp_path / "model.onnx", calibrate=True)
    assert shipped.calibration is not None
    assert (again.temperature, shipped.calibration.temperature) == (1.0, 1.0)
    for scaled in (again.metrics["nll_scaled"], again.calibrated["nll"], compared.one, shipped.metrics["test"]["nll"]):
        assert scaled == pytest.approx(again.metrics["nll"], rel=1e-5)
    assert shifted["nll_scaled"] == pytest.approx(shifted["nll"], rel=1e-6)
    assert held_out["nll_scaled"] == pytest.approx(held_out["nll"], rel=1e-6)
