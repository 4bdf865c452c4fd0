import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, mean_squared_error

from sae.config.run import DataConfig
from sae.core.task import Classification, DataSpec
from sae.data.catalogue import load
from sae.data.dataset import Dataset, Split
from sae.training import baselines
from sae.training.baselines import Baselines, fit_logistic, fit_ridge, measure_baselines
from tests.builders import blobs


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
    assert found.linear == pytest.approx(
        mean_squared_error(dataset.val.targets, model.predict(standardised(dataset, dataset.val))), rel=1e-4
    )
    assert found.trivial == pytest.approx(np.mean((dataset.val.targets - dataset.train.targets.mean()) ** 2))
    assert found.metric == "mse"


def test_the_baselines_of_classes_are_those_of_scikit_learn() -> None:
    dataset = load(DataConfig(name="digits"))
    found = measure_baselines(dataset)
    model = LogisticRegression(max_iter=200).fit(standardised(dataset, dataset.train), dataset.train.targets)
    expected = log_loss(dataset.val.targets, model.predict_proba(standardised(dataset, dataset.val)))
    assert found.linear == pytest.approx(expected, rel=0.02)
    assert found.trivial == pytest.approx(np.log(10), rel=0.01)
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
    assert found.linear is None
    assert "logistic regression left out because a sample has" in found.describe(0.5)


def test_a_class_without_training_samples_leaves_the_linear_one_out() -> None:
    dataset = blobs(Classification(3))
    found = measure_baselines(replace(dataset, spec=DataSpec(dataset.spec.shape, Classification(4))))
    assert np.isfinite(found.trivial)
    assert "do not have all 4 classes" in found.reason


@pytest.mark.parametrize(
    ("loss", "said"),
    [(0.1, None), (0.4, "is worse than that of logistic regression"), (2.0, "of class shares .* and logistic")],
)
def test_a_network_that_is_worse_is_warned_about(loss: float, said: str | None) -> None:
    warning = Baselines("nll", 1.1, 0.2, 96, 96).warn_about(loss)
    assert (warning is None) if said is None else re.search(said, warning or "")


def test_without_a_linear_baseline_only_the_trivial_one_counts() -> None:
    assert Baselines("mse", 4.0, None, 0, 96, "too large").warn_about(3.0) is None


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
