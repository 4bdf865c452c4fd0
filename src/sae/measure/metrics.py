"""Metrics of predictive distributions, as pure functions that `core.objectives` registers.

Classification metrics take a `Categorical` over (batch, class) and labels (batch,);
regression metrics a `Gaussian` over (batch,) and targets (batch,). All return a float, or None where the targets do not
define the metric; the predictions never decide that. Several targets are measured one by one: each sample counts once
for each of them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sae.core.objectives import NUM_BINS, metrics_of
from sae.core.predictive import Categorical, Gaussian, Predictive, gaussian_nll

TOP = 5
"""The most probable classes of `top5_accuracy`."""


def nll(predictive: Categorical, labels: Tensor) -> float:
    """Return the mean negative log-probability of the true class."""
    return -predictive.log_probs.gather(1, labels[:, None]).double().mean().item()


def accuracy(predictive: Categorical, labels: Tensor) -> float:
    """Return the share of samples whose most probable class is the true one."""
    return (predicted_class(predictive) == labels).double().mean().item()


def error(predictive: Categorical, labels: Tensor) -> float:
    """Return 1 − accuracy."""
    return 1.0 - accuracy(predictive, labels)


def f1(predictive: Categorical, labels: Tensor) -> float:
    """Return macro F1, the mean over classes of 2·TP / (2·TP + FP + FN).

    A class that is neither true nor predicted for any sample has no F1 and is left out, as in
    scikit-learn.
    """
    num_classes = predictive.log_probs.shape[1]
    predicted = predicted_class(predictive)
    true_count = torch.bincount(labels, minlength=num_classes)
    predicted_count = torch.bincount(predicted, minlength=num_classes)
    hits = torch.bincount(labels[predicted == labels], minlength=num_classes)
    present = true_count + predicted_count > 0
    return (2.0 * hits[present].double() / (true_count + predicted_count)[present]).mean().item()


def auroc(predictive: Categorical, labels: Tensor) -> float | None:
    """Return the probability that a sample of a class has a higher score for it than another sample; ties count half.

    Of two classes, it is that of the second; of more, the mean over those that samples have. None for samples of a
    single class.
    """
    ranked = _rank_by_class(predictive, labels)
    if ranked is None:
        return None
    others_above = (ranked.is_true * (ranked.place - ranked.hits)).sum(dim=1)  # pairs, with ties
    true_above = (~ranked.is_true * ranked.hits).sum(dim=1)
    true = ranked.is_true.sum(dim=1)
    pairs = (true * (len(labels) - true)).double()
    return (0.5 + 0.5 * (true_above - others_above) / pairs).mean().item()


def average_precision(predictive: Categorical, labels: Tensor) -> float | None:
    """Return the mean over samples of a class of the precision at a threshold at their score.

    Of two classes, it is that of the second; of more, the mean over those that samples have. None for samples of a
    single class.
    """
    ranked = _rank_by_class(predictive, labels)
    if ranked is None:
        return None
    precision = ranked.hits.double() / ranked.place
    return ((ranked.is_true * precision).sum(dim=1) / ranked.is_true.sum(dim=1)).mean().item()


def top5_accuracy(predictive: Categorical, labels: Tensor) -> float | None:
    """Return the share of samples whose true class is among the five most probable; None for five classes or fewer.

    Of equally probable classes the first come first, as for the accuracy.
    """
    scores = predictive.log_probs
    if scores.shape[1] <= TOP:
        return None
    own, is_before = scores.gather(1, labels[:, None]), torch.arange(scores.shape[1]) < labels[:, None]
    return (((scores > own) | ((scores == own) & is_before)).sum(dim=1) < TOP).double().mean().item()


def brier(predictive: Categorical, labels: Tensor) -> float:
    """Return the mean squared distance between the probabilities and the one-hot truth, in [0, 2]."""
    truth = torch.nn.functional.one_hot(labels, predictive.log_probs.shape[1])
    return (predictive.probs - truth).double().square().sum(dim=1).mean().item()


def ece(predictive: Categorical, labels: Tensor) -> float:
    """Return the expected calibration error of the top label, in 15 bins (lo, hi]."""
    bins = reliability(predictive, labels)
    gap = (bins.accuracy - bins.confidence).abs()
    return (bins.count * gap).sum().item() / len(labels)


def cc_ece(predictive: Categorical, labels: Tensor) -> float:
    """Return the class-conditional ECE: Σ_c |D_c|/|D| · ECE(D_c), with D_c the samples *predicted* as c."""
    return sum(count / len(labels) * value for count, value in _ece_by_predicted_class(predictive, labels))


def cc_ece_uniform(predictive: Categorical, labels: Tensor) -> float:
    """Return the authors' variant of CC-ECE: each class weighs 1/C; a class that is never predicted counts 0."""
    num_classes = predictive.log_probs.shape[1]
    return sum(value for _, value in _ece_by_predicted_class(predictive, labels)) / num_classes


def regression_nll(predictive: Gaussian, targets: Tensor) -> float:
    """Return the mean negative log-likelihood of the collapsed Gaussian, without ½·log 2π."""
    return gaussian_nll(predictive, targets).double().mean().item()


def weighted_nll(predictive: Predictive, targets: Tensor, weights: Tensor | None) -> float:
    """Return the mean negative log-likelihood with a weight for each sample, (batch,); None weighs all alike."""
    single, values = one_by_one(predictive, targets)
    if weights is None:
        return nll(single, values) if isinstance(single, Categorical) else regression_nll(single, values)
    if isinstance(single, Categorical):
        losses = -single.log_probs.gather(1, values[:, None])[:, 0]
    else:
        losses = gaussian_nll(single, values)
    of_samples = losses.double().view(len(targets), -1).mean(dim=1)
    return ((of_samples * weights).sum() / weights.sum()).item()


def mse(predictive: Gaussian, targets: Tensor) -> float:
    """Return the mean squared error of the predictive mean."""
    return (predictive.mean - targets).double().square().mean().item()


def rmse(predictive: Gaussian, targets: Tensor) -> float:
    """Return the root of the mean squared error, in the unit of the targets."""
    return math.sqrt(mse(predictive, targets))


def mae(predictive: Gaussian, targets: Tensor) -> float:
    """Return the mean absolute error of the predictive mean, in the unit of the targets."""
    return (predictive.mean - targets).double().abs().mean().item()


def r2(predictive: Gaussian, targets: Tensor) -> float:
    """Return R² = 1 − MSE / variance of the targets: 1 is perfect, 0 is as good as predicting their mean.

    If all targets are equal, it is 1 for exact predictions and 0 otherwise, as in scikit-learn.
    """
    spread = targets.double().var(correction=0).item()
    error = mse(predictive, targets)
    return 1.0 - error / spread if spread else float(error == 0)


def pinball(predictive: Gaussian, targets: Tensor) -> float:
    """Return the mean pinball loss of the nine deciles, which scores the whole distribution in the unit of the targets.

    The loss of the quantile q at level τ is max(τ·(y − q), (τ − 1)·(y − q)).
    """
    level = torch.arange(1, 10, dtype=torch.float64) / 10
    mean, std = predictive.mean.double()[:, None], predictive.variance.double().sqrt()[:, None]
    over = targets.double()[:, None] - (mean + std * torch.special.ndtri(level))  # (batch, level)
    return torch.maximum(level * over, (level - 1) * over).mean().item()


@dataclass(frozen=True)
class _Ranked:
    """Samples by their score for a class, the highest first, for each class: (class, sample) each.

    Attributes:
        is_true: Whether the sample is of the class.
        place: The number of samples with at least its score.
        hits: Those among them that are of the class.
    """

    is_true: Tensor
    place: Tensor
    hits: Tensor


def _rank_by_class(predictive: Categorical, labels: Tensor) -> _Ranked | None:
    """Rank the samples for each class that they have, of two classes for the second; None if they have a single one."""
    classes = labels.unique()
    if len(classes) < 2:
        return None
    chosen = classes if predictive.log_probs.shape[1] > 2 else classes[1:]
    scores, order = predictive.log_probs.T[chosen].sort(dim=1, descending=True)
    is_true = labels[order] == chosen[:, None]
    count = len(labels)
    is_last = torch.cat([scores[:, 1:] != scores[:, :-1], torch.ones(len(chosen), 1, dtype=torch.bool)], dim=1)
    ends = torch.where(is_last, torch.arange(1, count + 1), count)  # of ties
    place = ends.flip(1).cummin(dim=1).values.flip(1)
    return _Ranked(is_true, place, is_true.cumsum(dim=1).gather(1, place - 1))


Measure = Callable[[Categorical, Tensor], float | None]
RANKED = ("auroc", "average_precision")
"""Metrics of the order of samples, which are means over labels where several may hold."""


def measure_all(predictive: Predictive, targets: Tensor) -> dict[str, float]:
    """Compute every registered metric that the targets define by key, except those after temperature scaling."""
    return _measure(predictive, targets, is_scaled=False)


def measure_scaled(tempered: Predictive, targets: Tensor) -> dict[str, float]:
    """Compute the metrics after temperature scaling by key, for distributions that are already scaled."""
    return _measure(tempered, targets, is_scaled=True)


def one_by_one(predictive: Predictive, targets: Tensor) -> tuple[Predictive, Tensor]:
    """Return predictions of several targets as those of single ones, (batch·target,); others unchanged.

    Values are in units of their target's deviation, around its mean, so that targets count alike.

    Args:
        predictive: Of (batch[, target]).
        targets: (batch[, target]).
    """
    if targets.dim() == 1:
        return predictive, targets
    if isinstance(predictive, Categorical):
        return Categorical(predictive.log_probs.flatten(0, 1)), targets.flatten()
    exact = targets.double()
    mean, unit = exact.mean(dim=0), exact.std(dim=0, correction=0)
    unit = torch.where(unit > 0, unit, 1.0)
    scaled = Gaussian((predictive.mean - mean) / unit, predictive.variance / unit.square())
    return Gaussian(scaled.mean.flatten(), scaled.variance.flatten()), ((exact - mean) / unit).flatten()


def _measure(predictive: Predictive, targets: Tensor, *, is_scaled: bool) -> dict[str, float]:
    single, one_each = one_by_one(predictive, targets)
    task = "classification" if isinstance(predictive, Categorical) else "regression"
    chosen = {key: entry for key, entry in metrics_of(task).items() if entry.is_scaled == is_scaled}
    values = {key: entry.measure(single, one_each) for key, entry in chosen.items()}
    if isinstance(predictive, Categorical) and targets.dim() == 2:  # samples of different labels have no order
        values |= {key: _over_labels(chosen[key].measure, predictive, targets) for key in RANKED if key in chosen}
    return {key: value for key, value in values.items() if value is not None}


def _over_labels(measure: Measure, predictive: Categorical, targets: Tensor) -> float | None:
    """Return the mean of a metric over labels, (batch, label), where it is defined."""
    each = [measure(Categorical(predictive.log_probs[:, i]), targets[:, i]) for i in range(targets.shape[1])]
    known = [value for value in each if value is not None]
    return sum(known) / len(known) if known else None


def predicted_class(predictive: Categorical) -> Tensor:
    """Return the most probable class of each sample, (batch,)."""
    return predictive.log_probs.argmax(dim=1)


@dataclass(frozen=True)
class Reliability:
    """Samples binned by the confidence of their top label.

    Attributes:
        count: Samples in each bin, (bin,).
        confidence: Mean confidence in each bin, (bin,); 0 where it is empty.
        accuracy: Share of right predictions in each bin, (bin,); 0 where it is empty.
    """

    count: Tensor
    confidence: Tensor
    accuracy: Tensor


def reliability(predictive: Categorical, labels: Tensor) -> Reliability:
    """Return the bins of a reliability diagram, 15 bins (lo, hi]."""
    confidence = predictive.probs.max(dim=1).values.double().clamp(max=1.0)
    right = (predicted_class(predictive) == labels).double()
    return _bin(confidence, right)


def _bin(confidence: Tensor, right: Tensor) -> Reliability:
    inner_edges = torch.arange(1, NUM_BINS, dtype=torch.float64) / NUM_BINS
    index = torch.bucketize(confidence.cpu(), inner_edges)  # right=False: a value on an edge belongs to the bin below
    count = torch.bincount(index, minlength=NUM_BINS)
    per_bin = count.clamp(min=1)

    def mean(values: Tensor) -> Tensor:
        return torch.bincount(index, weights=values.cpu(), minlength=NUM_BINS) / per_bin

    return Reliability(count, mean(confidence), mean(right))


def _ece_by_predicted_class(predictive: Categorical, labels: Tensor) -> list[tuple[int, float]]:
    """Return (count, ECE) of the samples of each predicted class."""
    predicted = predicted_class(predictive)
    return [
        (int(chosen.sum()), ece(Categorical(predictive.log_probs[chosen]), labels[chosen]))
        for chosen in (predicted == c for c in predicted.unique())
    ]
