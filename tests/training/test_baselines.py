from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_squared_error

from sae.config.run import DataConfig
from sae.core.task import Classification, DataSpec
from sae.data.catalogue import load
from sae.data.columns import Column
from sae.data.dataset import Dataset, Split
from sae.data.frames import dataset_of
from sae.training import baselines
from sae.training.baselines import Baseline, Baselines, fit_logistic, fit_ridge, measure_baselines, network_losses
from sae.training.run import train
from tests.builders import blobs, run_config


def standardised(dataset: Dataset, split: Split) -> NDArray[np.float64]:
    flat = split.inputs[:].reshape(len(split), -1).astype(np.float64)
    each = flat.shape[1] // len(dataset.normalisation.mean)
    mean, std = (np.repeat(values, each) for values in (dataset.normalisation.mean, dataset.normalisation.std))
    scaled: NDArray[np.float64] = (flat - mean) / std
    return scaled


def test_the_baselines_of_a_regression_are_those_of_scikit_learn() -> None:
    dataset = load(DataConfig(name="diabetes"))
    found = measure_baselines(dataset)
    model = Ridge().fit(standardised(dataset, dataset.train), dataset.train.targets)
    inputs, targets = standardised(dataset, dataset.val), dataset.val.targets
    losses = found.by_name
    assert losses["ridge regression"] == pytest.approx(mean_squared_error(targets, model.predict(inputs)), rel=1e-4)
    assert losses["the mean"] == pytest.approx(np.mean((targets - dataset.train.targets.mean()) ** 2))
    boosted = HistGradientBoostingRegressor(random_state=0, early_stopping=False).fit(
        standardised(dataset, dataset.train), dataset.train.targets
    )
    assert losses["gradient boosting"] == pytest.approx(mean_squared_error(targets, boosted.predict(inputs)), rel=1e-2)
    assert found.metric == "mse"


def test_the_baselines_of_classes_are_those_of_scikit_learn() -> None:
    dataset = load(DataConfig(name="digits"))
    found = measure_baselines(dataset)
    model = LogisticRegression(max_iter=200).fit(standardised(dataset, dataset.train), dataset.train.targets)
    expected = log_loss(dataset.val.targets, model.predict_proba(standardised(dataset, dataset.val)))
    assert found.by_name == {
        "class shares": pytest.approx(np.log(10), rel=0.01),
        "logistic regression": pytest.approx(expected, rel=0.02),
    }
    assert (found.metric, found.num_fitted) == ("nll", found.num_training)


def test_many_samples_are_thinned_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_SAMPLES", 50)
    found = measure_baselines(blobs(Classification(3)))
    assert found.num_fitted == 50
    assert "logistic regression" in found.describe(0.5)
    assert "(on 50 of 96 samples)" in found.describe(0.5)


def test_large_images_are_left_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_FEATURES", 10)
    found = measure_baselines(blobs(Classification(3)))
    assert list(found.by_name) == ["class shares"]
    assert "logistic regression left out because a sample has" in found.describe(0.5)


def test_a_class_without_training_samples_leaves_the_linear_one_out() -> None:
    dataset = blobs(Classification(3))
    found = measure_baselines(replace(dataset, spec=DataSpec(dataset.spec.shape, Classification(4))))
    assert np.isfinite(found.by_name["class shares"])
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
    assert measure_baselines(dataset).by_name["gradient boosting"] == pytest.approx(expected, rel=1e-6)


def test_boosting_takes_a_class_of_one_sample_and_is_left_out_for_many_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    labels = np.concatenate([[2], np.arange(10_999) % 2, np.arange(99) % 2])
    table = {"x": Column("x", rng.normal(size=len(labels)))}
    rows = (np.arange(11_000), np.arange(11_000, len(labels)))
    dataset = dataset_of(table, labels, ("a", "b", "c"), rows, "X")
    assert "gradient boosting" in measure_baselines(dataset).by_name
    monkeypatch.setattr(baselines, "MOST_BOOSTED", 100)
    found = measure_baselines(dataset)
    assert list(found.by_name) == ["class shares", "logistic regression"]
    assert "gradient boosting left out because there are 3 classes" in found.describe(0.5)


def compared(**losses: list[float]) -> Baselines:
    return Baselines("nll", tuple(Baseline(name, np.array(values)) for name, values in losses.items()), 96, 96)


def test_the_best_of_the_better_baselines_is_the_verdict() -> None:
    network = np.array([0.5, 0.6, 0.7, 0.8] * 25)
    found = compared(boosting=list(network - 0.2), linear=list(network - 0.1), shares=list(network + 1))
    said = found.verdict(network)
    assert said is not None
    assert said.startswith("Boosting is better here: NLL 0.45 on validation, against 0.65 of this network.")


def test_a_baseline_is_better_only_beyond_the_noise_of_the_samples() -> None:
    rng = np.random.default_rng(0)
    network = rng.uniform(0, 1, 400)
    noise = rng.normal(size=400)
    nearly = network + 0.1 * (noise - noise.mean()) - 0.009  # a gain of less than two standard errors of 0.005
    assert compared(linear=list(nearly)).verdict(network) is None
    assert compared(linear=list(nearly - 0.004)).verdict(network) is not None
    assert compared(linear=[0.1]).verdict(np.array([0.9])) is None


@pytest.mark.parametrize("name", ["digits", "diabetes"])
def test_the_losses_of_a_network_are_those_of_its_metric(name: str, tmp_path: Path) -> None:
    record = train(run_config(data={"name": name}), tmp_path / "run")
    evaluation = record.read_evaluation()
    metrics = evaluation.val.at(evaluation.best_exits).metrics
    assert network_losses(record).mean() == pytest.approx(metrics["nll" if name == "digits" else "mse"], rel=1e-5)


@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("num_features", [4, 60])
def test_logistic_regression_is_that_of_scikit_learn(num_classes: int, num_features: int) -> None:
    rng = np.random.default_rng(num_classes)
    inputs, labels = rng.normal(size=(50, num_features)), np.arange(50) % num_classes
    weights = fit_logistic(inputs, labels, num_classes, tolerance=1e-9)
    model = LogisticRegression(max_iter=10_000, tol=1e-9).fit(inputs, labels)
    np.testing.assert_allclose(weights, np.column_stack([model.coef_, model.intercept_]), rtol=1e-4, atol=1e-6)


def test_a_logistic_regression_is_fitted_until_scikit_learn_s_is() -> None:
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(80, 20)), np.arange(80) % 3
    model, exact = (LogisticRegression(max_iter=10_000, tol=tol).fit(inputs, labels).coef_ for tol in (1e-4, 1e-10))
    found = fit_logistic(inputs, labels, 3)[:, :-1]
    assert np.abs(found - exact).max() < 3 * np.abs(model - exact).max()


@pytest.mark.parametrize("num_features", [4, 60])
def test_ridge_regression_is_that_of_scikit_learn(num_features: int) -> None:
    rng = np.random.default_rng(0)
    inputs, targets, others = (
        rng.normal(3, 2, (50, num_features)),
        rng.normal(5, 1, 50),
        rng.normal(size=(9, num_features)),
    )
    np.testing.assert_allclose(fit_ridge(inputs, targets)(others), Ridge().fit(inputs, targets).predict(others))
