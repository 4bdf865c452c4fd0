"""Estimators of several targets, of counts and of classes in an order."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import sae
from sae import SAEClassifier, SAERegressor
from sae.deploy.runtime import LabelPrediction, ValuePrediction

Numbers = NDArray[np.float64]
GENERATOR = np.random.default_rng(0)
X: Numbers = GENERATOR.standard_normal((150, 3))
NOISY: Numbers = X + 0.3 * GENERATOR.standard_normal(X.shape)
LABELS = (NOISY[:, :2] > 0).astype(int)
VALUES: Numbers = NOISY[:, :2] * np.array([10.0, 0.1]) + np.array([100.0, 0.0])
COUNTS = GENERATOR.poisson(np.exp(X[:, 0]))
GRADES = np.digitize(NOISY[:, 0], [-0.5, 0.5]) + 1


def test_several_labels_each_have_a_probability(tmp_path: Path) -> None:
    model = SAEClassifier(epochs=15, random_state=0).fit(X, LABELS)
    probs = model.predict_proba(X)
    assert probs.shape == LABELS.shape
    assert ((probs > 0.5) == LABELS).mean() > 0.8
    np.testing.assert_array_equal(model.predict(X), probs > 0.5)
    with pytest.raises(ValueError, match="sets are for classes, one of which is right"):
        model.predict_set(X)
    model.export(tmp_path / "model.onnx")
    shipped = sae.load(tmp_path).predict(X)
    assert isinstance(shipped, LabelPrediction)
    np.testing.assert_allclose(shipped.probs, probs, atol=1e-5)


def test_several_values_are_in_their_own_units(tmp_path: Path) -> None:
    model = SAERegressor(epochs=30, random_state=0).fit(X, VALUES)
    assert model.predict(X).shape == VALUES.shape
    assert model.score(X, VALUES) > 0.7
    lower, upper = model.predict_interval(X, 0.8)
    assert ((lower <= VALUES) & (upper >= VALUES)).all(axis=1).mean() > 0.6
    model.export(tmp_path / "model.onnx")
    shipped = sae.load(tmp_path).predict(X)
    assert isinstance(shipped, ValuePrediction)
    np.testing.assert_allclose(shipped.mean, model.predict(X), rtol=1e-5, atol=1e-5)


def test_no_count_is_below_0() -> None:
    model = SAERegressor(task="counts", epochs=10, random_state=0).fit(X, COUNTS)
    assert model.predict(X).min() > 0
    assert model.predict_interval(X, 0.9)[0].min() == 0


def test_classes_in_an_order_are_numbers() -> None:
    model = SAEClassifier(task="ordinal", epochs=15, random_state=0).fit(X, GRADES)
    assert model.score(X, GRADES) > 0.6
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="classes in an order must be numbers, got 'high'"):
        model.fit(X, np.where(GRADES > 1, "high", "low"))


@pytest.mark.parametrize(
    ("model", "targets", "message"),
    [
        (SAEClassifier(task="counts"), GRADES, "task must be one of classification, ordinal, got 'counts'"),
        (SAERegressor(task="counts"), X[:, 0], "counts must be whole numbers from 0"),
        (SAEClassifier(class_weight="balanced"), LABELS, "class_weight is for classes without an order"),
        (SAEClassifier(), np.stack([GRADES, GRADES], axis=1), "labels that are 0 or 1|not supported"),
    ],
)
def test_targets_that_do_not_suit_the_task_are_refused(
    model: SAEClassifier | SAERegressor, targets: Numbers, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        model.fit(X, targets)
