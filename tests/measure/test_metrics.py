import math

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from sae.core.objectives import metrics_of
from sae.core.predictive import Categorical, Gaussian
from sae.measure.metrics import (
    accuracy,
    auroc,
    average_precision,
    brier,
    cc_ece,
    cc_ece_uniform,
    ece,
    error,
    f1,
    measure_all,
    measure_scaled,
    mse,
    nll,
    r2,
    regression_nll,
    reliability,
    top5_accuracy,
)

CLASSES = 4


def random_case(seed: int, samples: int = 200, sharpness: float = 1.5) -> tuple[Categorical, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(samples, CLASSES, generator=generator) * sharpness
    labels = torch.distributions.Categorical(logits=logits, validate_args=False).sample()
    wrong = torch.rand(samples, generator=generator) < 0.3
    return Categorical(logits.log_softmax(-1)), torch.where(wrong, torch.zeros_like(labels), labels)


def naive_ece(probs: np.ndarray, labels: np.ndarray) -> float:
    """The definition, sample by sample and bin by bin."""
    total = 0.0
    for m in range(15):
        lower, upper = m / 15, (m + 1) / 15
        chosen = [n for n in range(len(labels)) if lower < probs[n].max() <= upper]
        if chosen:
            right = np.mean([probs[n].argmax() == labels[n] for n in chosen])
            total += len(chosen) / len(labels) * abs(right - np.mean([probs[n].max() for n in chosen]))
    return total


@pytest.mark.parametrize("seed", range(5))
def test_metrics_agree_with_scikit_learn(seed: int) -> None:
    predictive, labels = random_case(seed)
    probs, y = predictive.probs.double().numpy(), labels.numpy()
    probs /= probs.sum(axis=1, keepdims=True)
    guess = probs.argmax(axis=1)
    assert accuracy(predictive, labels) == pytest.approx(sklearn_metrics.accuracy_score(y, guess))
    assert error(predictive, labels) == pytest.approx(1 - sklearn_metrics.accuracy_score(y, guess))
    assert f1(predictive, labels) == pytest.approx(sklearn_metrics.f1_score(y, guess, average="macro"))
    assert nll(predictive, labels) == pytest.approx(sklearn_metrics.log_loss(y, probs, labels=range(CLASSES)), rel=1e-5)
    one_hot = np.eye(CLASSES)[y]
    assert brier(predictive, labels) == pytest.approx(((probs - one_hot) ** 2).sum(axis=1).mean(), rel=1e-5)


def scored(seed: int, classes: int, decimals: int) -> tuple[Categorical, torch.Tensor]:
    """Probabilities with ties, because they are rounded."""
    generator = np.random.default_rng(seed)
    probs = generator.dirichlet(np.ones(classes), size=150).round(decimals) + 1e-3
    probs = (probs / probs.sum(axis=1, keepdims=True)).round(9)
    return Categorical(torch.from_numpy(probs).log()), torch.from_numpy(generator.integers(0, classes, 150))


@pytest.mark.parametrize("decimals", [1, 8])
@pytest.mark.parametrize("classes", [2, 3, 7])
def test_rankings_agree_with_scikit_learn_also_with_ties(classes: int, decimals: int) -> None:
    predictive, labels = scored(decimals, classes, decimals)
    probs, y = predictive.probs.numpy(), labels.numpy()
    if classes == 2:
        expected = (
            sklearn_metrics.roc_auc_score(y, probs[:, 1]),
            sklearn_metrics.average_precision_score(y, probs[:, 1]),
        )
    else:
        truth = np.eye(classes)[y]
        expected = (
            sklearn_metrics.roc_auc_score(y, probs, multi_class="ovr"),
            sklearn_metrics.average_precision_score(truth, probs, average="macro"),
        )
    assert (auroc(predictive, labels), average_precision(predictive, labels)) == pytest.approx(expected)


def test_a_class_without_samples_is_left_out_of_the_means() -> None:
    predictive, labels = scored(0, 4, 8)
    labels[labels == 2] = 1
    truth, probs, present = np.eye(4)[labels.numpy()], predictive.probs.numpy(), [0, 1, 3]
    by_class = [sklearn_metrics.roc_auc_score(truth[:, c], probs[:, c]) for c in present]
    precisions = [sklearn_metrics.average_precision_score(truth[:, c], probs[:, c]) for c in present]
    assert auroc(predictive, labels) == pytest.approx(np.mean(by_class))
    assert average_precision(predictive, labels) == pytest.approx(np.mean(precisions))


def test_constant_predictions_rank_nothing() -> None:
    predictive, labels = Categorical(torch.zeros(8, 2) - math.log(2)), torch.tensor([0, 0, 0, 1, 0, 0, 1, 0])
    assert auroc(predictive, labels) == 0.5
    assert average_precision(predictive, labels) == 0.25


def test_a_metric_that_the_targets_do_not_define_is_left_out() -> None:
    predictive, labels = random_case(0)
    measured = measure_all(predictive, torch.ones_like(labels))
    assert not {"auroc", "average_precision", "top5_accuracy"} & set(measured)
    assert measured["accuracy"] == accuracy(predictive, torch.ones_like(labels))


def test_top_5_accuracy_agrees_with_scikit_learn() -> None:
    predictive, labels = scored(3, 9, 8)
    expected = sklearn_metrics.top_k_accuracy_score(labels.numpy(), predictive.probs.numpy(), k=5, labels=range(9))
    assert top5_accuracy(predictive, labels) == pytest.approx(expected)


def test_of_equal_probabilities_the_first_five_classes_count() -> None:
    labels = torch.arange(8)
    assert top5_accuracy(Categorical(torch.zeros(8, 8) - math.log(8)), labels) == 5 / 8


@pytest.mark.parametrize("seed", range(5))
def test_calibration_errors_are_their_naive_loops(seed: int) -> None:
    predictive, labels = random_case(seed)
    probs, y = predictive.probs.double().numpy(), labels.numpy()
    assert ece(predictive, labels) == pytest.approx(naive_ece(probs, y))
    by_class = [(probs[probs.argmax(1) == c], y[probs.argmax(1) == c]) for c in range(CLASSES)]
    weighted = sum(len(y_c) / len(y) * naive_ece(p_c, y_c) for p_c, y_c in by_class if len(y_c))
    uniform = sum(naive_ece(p_c, y_c) / CLASSES for p_c, y_c in by_class if len(y_c))
    assert cc_ece(predictive, labels) == pytest.approx(weighted)
    assert cc_ece_uniform(predictive, labels) == pytest.approx(uniform)


def test_a_class_that_is_never_predicted_counts_zero() -> None:
    predictive = Categorical(torch.tensor([[0.9, 0.1], [0.9, 0.1]]).log())
    labels = torch.tensor([0, 1])
    assert cc_ece(predictive, labels) == pytest.approx(0.4)
    assert cc_ece_uniform(predictive, labels) == pytest.approx(0.2)


def test_f1_leaves_out_a_class_that_is_nowhere_as_scikit_learn_does() -> None:
    predictive = Categorical(torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1]]).log())
    labels = torch.tensor([0, 1, 1])
    expected = sklearn_metrics.f1_score(labels.numpy(), [0, 1, 0], average="macro")
    assert f1(predictive, labels) == pytest.approx(expected)


def test_a_confidence_on_an_edge_belongs_to_the_bin_below() -> None:
    predictive = Categorical(torch.tensor([[0.6, 0.4], [1.0, 0.0]], dtype=torch.float64).log())
    bins = reliability(predictive, torch.tensor([0, 0]))
    assert bins.count.nonzero().flatten().tolist() == [8, 14]


def test_nll_is_finite_where_the_softmax_underflows() -> None:
    predictive = Categorical(torch.tensor([[0.0, 300.0]]).log_softmax(-1))
    assert nll(predictive, torch.tensor([0])) == pytest.approx(300.0)


@given(arrays.arrays(np.float32, (20, CLASSES), elements=st.floats(-30, 30, width=32)), st.integers(0, 100))
def test_classification_metrics_keep_to_their_bounds(logits: np.ndarray, seed: int) -> None:
    labels = torch.randint(0, CLASSES, (20,), generator=torch.Generator().manual_seed(seed))
    predictive = Categorical(torch.from_numpy(logits).log_softmax(-1))
    measured = measure_all(predictive, labels) | measure_scaled(predictive, labels)
    metrics = metrics_of("classification")
    assert set(measured) == set(metrics) - {"top5_accuracy"}
    for key, value in measured.items():
        assert metrics[key].lower - 1e-6 <= value <= metrics[key].upper + 1e-6


def test_a_perfect_prediction_reaches_the_better_bound() -> None:
    labels = torch.tensor([0, 1, 2, 3])
    predictive = Categorical((torch.eye(4) * 1e4).log_softmax(-1))
    for key, value in measure_all(predictive, labels).items():
        metric = metrics_of("classification")[key]
        assert value == pytest.approx(metric.upper if metric.maximise else metric.lower, abs=1e-6)


def test_regression_metrics_are_their_definitions() -> None:
    mean, variance, y = torch.randn(50), torch.rand(50) + 0.1, torch.randn(50)
    gaussian = Gaussian(mean, variance)
    naive = [
        0.5 * (math.log(v) + (t - m) ** 2 / v)
        for m, v, t in zip(mean.tolist(), variance.tolist(), y.tolist(), strict=True)
    ]
    assert regression_nll(gaussian, y) == pytest.approx(np.mean(naive), rel=1e-5)
    assert mse(gaussian, y) == pytest.approx(sklearn_metrics.mean_squared_error(y.numpy(), mean.numpy()), rel=1e-5)
    assert set(measure_all(gaussian, y) | measure_scaled(gaussian, y)) == set(metrics_of("regression"))


def test_regression_metrics_agree_with_scikit_learn() -> None:
    mean, variance, y = torch.randn(50), torch.rand(50) + 0.1, 3 * torch.randn(50)
    found, guess, truth = measure_all(Gaussian(mean, variance), y), mean.double().numpy(), y.double().numpy()
    assert found["rmse"] == pytest.approx(sklearn_metrics.root_mean_squared_error(truth, guess), rel=1e-5)
    assert found["mae"] == pytest.approx(sklearn_metrics.mean_absolute_error(truth, guess), rel=1e-5)
    assert found["r2"] == pytest.approx(sklearn_metrics.r2_score(truth, guess), rel=1e-5)
    deciles = [
        sklearn_metrics.mean_pinball_loss(
            truth, scipy.stats.norm.ppf(level, guess, variance.double().sqrt().numpy()), alpha=level
        )
        for level in np.arange(1, 10) / 10
    ]
    assert found["pinball"] == pytest.approx(np.mean(deciles), rel=1e-5)


@pytest.mark.parametrize(("guess", "expected"), [(2.0, 1.0), (3.0, 0.0)])
def test_r2_of_equal_targets_is_finite(guess: float, expected: float) -> None:
    gaussian = Gaussian(torch.full((4,), guess), torch.ones(4))
    assert r2(gaussian, torch.full((4,), 2.0)) == expected
