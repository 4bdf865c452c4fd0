from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_squared_error

from sae.analysis.baselines import describe, doubt, verdict
from sae.config.run import DataConfig
from sae.core.task import Classification, DataSpec, Regression
from sae.data.catalogue import load
from sae.data.columns import Column
from sae.data.dataset import Dataset, Split
from sae.data.frames import dataset_of
from sae.records.baselines import Baselines, Measured
from sae.training import baselines
from sae.training.baselines import measure_baselines, network_losses
from sae.training.run import train
from tests.builders import blobs, run_config


def standardised(dataset: Dataset, split: Split) -> NDArray[np.float64]:
    flat = split.inputs[:].reshape(len(split), -1).astype(np.float64)
    each = flat.shape[1] // len(dataset.normalisation.mean)
    mean, std = (np.repeat(values, each) for values in (dataset.normalisation.mean, dataset.normalisation.std))
    scaled: NDArray[np.float64] = (flat - mean) / std
    return scaled


def by_name(found: Baselines, metric: str, split: str = "val") -> dict[str, float]:
    return {one.name: getattr(one, split)[metric] for one in found.found}


def network(losses: NDArray[np.float64], metric: str = "nll") -> Measured:
    value = {metric: float(losses.mean())}
    return Measured(name="this network", losses=tuple(losses), val=value, test=value)


def test_the_baselines_of_a_regression_are_those_of_scikit_learn() -> None:
    dataset = load(DataConfig(name="diabetes"))
    found = measure_baselines(dataset)
    model = Ridge().fit(standardised(dataset, dataset.train), dataset.train.targets)
    inputs, targets = standardised(dataset, dataset.val), dataset.val.targets
    losses = by_name(found, "mse")
    assert losses["ridge regression"] == pytest.approx(mean_squared_error(targets, model.predict(inputs)), rel=1e-4)
    assert losses["the mean"] == pytest.approx(np.mean((targets - dataset.train.targets.mean()) ** 2))
    boosted = HistGradientBoostingRegressor(random_state=0, early_stopping=False).fit(
        standardised(dataset, dataset.train), dataset.train.targets
    )
    assert losses["gradient boosting"] == pytest.approx(mean_squared_error(targets, boosted.predict(inputs)), rel=1e-2)
    on_test = boosted.predict(standardised(dataset, dataset.test))
    assert by_name(found, "rmse", "test")["gradient boosting"] == pytest.approx(
        mean_squared_error(dataset.test.targets, on_test) ** 0.5, rel=1e-2
    )


def test_the_baselines_of_classes_are_those_of_scikit_learn() -> None:
    dataset = load(DataConfig(name="digits"))
    found = measure_baselines(dataset)
    model = LogisticRegression(max_iter=200).fit(standardised(dataset, dataset.train), dataset.train.targets)
    expected = log_loss(dataset.val.targets, model.predict_proba(standardised(dataset, dataset.val)))
    assert by_name(found, "nll") == {
        "class shares": pytest.approx(np.log(10), rel=0.01),
        "logistic regression on 16 × 16 pixels": pytest.approx(expected, rel=0.02),
    }
    assert found.num_fitted == found.num_training


def test_many_samples_are_thinned_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_SAMPLES", 50)
    found = measure_baselines(blobs(Classification(3)))
    assert found.num_fitted == 50
    said = describe(found, network(np.full(96, 0.5)))
    assert "logistic regression" in said
    assert "(on 50 of 96 samples)" in said


def test_large_images_are_pooled_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = blobs(Classification(3), shape=(2, 6, 4))
    monkeypatch.setattr(baselines, "MOST_POOLED", 12)
    found = by_name(measure_baselines(dataset), "nll")
    means = dataset.train.inputs[:].reshape(96, 2, 3, 2, 2, 2).mean(axis=(3, 5)).reshape(96, 12)
    model = LogisticRegression(max_iter=200).fit(means, dataset.train.targets)
    expected = log_loss(dataset.val.targets, model.predict_proba(means))
    assert found["logistic regression on 3 × 2 pixels"] == pytest.approx(expected, rel=1e-4)


def test_no_more_of_large_images_is_read_than_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_READ", 50 * 2 * 6 * 4)
    assert measure_baselines(blobs(Classification(3), shape=(2, 6, 4))).num_fitted == 50


def test_long_signals_are_pooled_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_POOLED", 12)
    found = by_name(measure_baselines(blobs(Regression(), shape=(2, 21))), "rmse")
    assert list(found) == ["the mean", "ridge regression on 6 numbers a channel"]


def test_wide_tables_are_left_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_FEATURES", 9)
    found = measure_baselines(load(DataConfig(name="diabetes")))
    assert list(by_name(found, "rmse")) == ["the mean"]
    assert "ridge regression left out because a sample has 10 numbers, more than 9" in found.reason


def test_a_class_without_training_samples_leaves_the_linear_one_out() -> None:
    dataset = blobs(Classification(3))
    found = measure_baselines(replace(dataset, spec=DataSpec(dataset.spec.shape, Classification(4))))
    assert np.isfinite(by_name(found, "nll")["class shares"])
    assert "do not have all 4 classes" in found.reason


def test_boosting_of_classes_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    table = {f"x{place}": Column(f"x{place}", inputs[:, place]) for place in range(3)}
    dataset = dataset_of(table, labels, ("a", "b", "c"), (np.arange(200), np.arange(200, 300)), "X")
    model = HistGradientBoostingClassifier(random_state=0, early_stopping=False).fit(
        standardised(dataset, dataset.train), labels[:200]
    )
    expected = log_loss(labels[200:], model.predict_proba(standardised(dataset, dataset.val)))
    assert by_name(measure_baselines(dataset), "nll")["gradient boosting"] == pytest.approx(expected, rel=1e-6)


def test_boosting_takes_a_class_of_one_sample_and_is_left_out_for_many_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels = np.concatenate([[2], np.arange(10_999) % 2, np.arange(99) % 2])
    table = {"x": Column("x", rng.normal(size=len(labels)))}
    rows = (np.arange(11_000), np.arange(11_000, len(labels)))
    dataset = dataset_of(table, labels, ("a", "b", "c"), rows, "X")
    assert "gradient boosting" in by_name(measure_baselines(dataset), "nll")
    monkeypatch.setattr(baselines, "MOST_BOOSTED", 100)
    found = measure_baselines(dataset)
    assert list(by_name(found, "nll")) == ["class shares", "logistic regression"]
    assert "gradient boosting left out because there are 3 classes" in found.reason


def compared(**losses: NDArray[np.float64]) -> Baselines:
    found = tuple(network(values).model_copy(update={"name": name}) for name, values in losses.items())
    return Baselines(task="classification", samples="", found=found, num_fitted=96, num_training=96)


def test_the_best_of_the_better_baselines_is_the_verdict() -> None:
    losses = np.array([0.5, 0.6, 0.7, 0.8] * 25)
    found = compared(boosting=losses - 0.2, linear=losses - 0.1, shares=losses + 1)
    said = "Boosting is better here: NLL 0.45 against 0.65 on validation (0.45 against 0.65 on test)."
    assert verdict(found, network(losses)) == said


def test_the_verdict_on_a_regression_is_in_the_unit_of_its_target() -> None:
    losses = np.array([9.0, 16.0] * 50)
    better = network(losses - 5, "rmse").model_copy(update={"name": "boosting", "val": {"rmse": 2.74}})
    found = Baselines(task="regression", samples="", found=(better,), num_fitted=9, num_training=9)
    said = verdict(found, network(losses, "rmse").model_copy(update={"val": {"rmse": 3.54, "mse": 12.5}}))
    assert said is not None
    assert said.startswith("Boosting is better here: RMSE 2.74 against 3.54 on validation")


def test_a_baseline_is_better_only_beyond_the_noise_of_the_samples() -> None:
    rng = np.random.default_rng(0)
    losses = rng.uniform(0, 1, 400)
    noise = rng.normal(size=400)
    nearly = losses + 0.1 * (noise - noise.mean()) - 0.009  # a gain of less than two standard errors of 0.005
    assert verdict(compared(linear=nearly), network(losses)) is None
    assert verdict(compared(linear=nearly - 0.004), network(losses)) is not None
    assert verdict(compared(linear=np.array([0.1])), network(np.array([0.9]))) is None


def test_a_baseline_that_is_better_by_a_tenth_is_named_also_within_noise() -> None:
    one = network(np.array([0.9]))
    assert verdict(compared(linear=np.array([0.8])), one) is None
    assert doubt(compared(linear=np.array([0.85])), one) is None
    said = "Linear may be better here, within the noise of the rows: NLL 0.8 against 0.9 on validation."
    assert doubt(compared(linear=np.array([0.8])), one) == said


@pytest.mark.parametrize("name", ["digits", "diabetes"])
def test_the_losses_of_a_network_are_those_of_its_metric(name: str, tmp_path: Path) -> None:
    record = train(run_config(data={"name": name}), tmp_path / "run")
    evaluation = record.read_evaluation()
    metrics = evaluation.val.at(evaluation.best_exits).metrics
    assert network_losses(record).mean() == pytest.approx(metrics["nll" if name == "digits" else "mse"], rel=1e-5)
