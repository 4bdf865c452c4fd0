"""Metrics as functions of means over samples, so that a resampled metric costs one matrix product.

Every metric here computes features of each sample, and its value is a function of their means: NLL is
the mean of one feature; the calibration error of 15 bins is a function of 15 means.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array, hstack, kron

from sae.analysis.statistics import SCALED
from sae.analysis.temperature import losses
from sae.core.errors import ConfigError, did_you_mean
from sae.core.objectives import NUM_BINS, TaskName
from sae.records.predictions import Numbers

Labels = NDArray[np.number]
Means = NDArray[np.float64]


def _only(means: Means) -> Means:
    return means[..., 0]


@dataclass(frozen=True)
class SampleMetric:
    """A metric that follows from means over samples.

    Attributes:
        features: Computes features, (sample, feature), from predictions and targets.
        finish: Turns means of the features, (…, feature), into values, (…); by default there is one feature.
    """

    features: Callable[[Numbers, Labels], csr_array]
    finish: Callable[[Means], Means] = _only

    def value(self, numbers: Numbers, targets: Labels) -> float:
        """Return the metric on all samples."""
        return float(self.finish(np.asarray(self.of_samples(numbers, targets).mean(axis=0)).ravel()))

    def of_samples(self, numbers: Numbers, targets: Labels) -> csr_array:
        """Return features of each sample, (sample, feature): the means over its targets, if there are several."""
        if targets.ndim == 1:
            return self.features(numbers, targets)
        num_samples, num_targets = targets.shape
        single = self.features(*one_by_one(numbers, targets))
        over_targets = kron(eye_array(num_samples, format="csr"), np.full((1, num_targets), 1 / num_targets))
        return csr_array(over_targets @ single)


def one_by_one(numbers: Numbers, targets: Labels) -> tuple[Numbers, Labels]:
    """Return predictions (sample, target, number) of several targets as those of single ones, (sample·target, number).

    Values are in units of their target's deviation, around its mean, so that targets count alike.
    """
    if np.issubdtype(targets.dtype, np.floating):
        mean, unit = targets.mean(axis=0)[:, None], targets.std(axis=0)[:, None]
        unit = np.where(unit > 0, unit, 1.0)
        targets = (targets[..., None] - mean) / unit
        numbers = np.concatenate([(numbers[..., :1] - mean) / unit, numbers[..., 1:] / np.square(unit)], axis=-1)
    return numbers.reshape(-1, numbers.shape[-1]), targets.ravel()


def sample_metric(name: str, task: TaskName) -> SampleMetric:
    """Return a metric by its name; the suffix `_scaled` changes the predictions, not the metric."""
    known = SAMPLE_METRICS[task]
    base = name.removesuffix(SCALED)
    if base not in known:
        raise ConfigError(
            f"the metric of a comparison must be one of {', '.join(known)}, or one of them with {SCALED} behind it; "
            f"got {name!r}{did_you_mean(base, known)}"
        )
    return known[base]


def joined(features: Sequence[csr_array]) -> csr_array:
    """Return the features of several metrics or runs side by side, (sample, all features)."""
    return csr_array(hstack(features, format="csr"))


def _column(values: NDArray[np.float64]) -> csr_array:
    return csr_array(values[:, None])


def _in_groups(values: NDArray[np.float64], group: NDArray[np.int64], num_groups: int) -> csr_array:
    """Return a feature for each group: the value of samples in the group, and 0 for others."""
    rows = np.arange(len(values))
    return csr_array((values, (rows, group)), shape=(len(values), num_groups))


def _is_right(numbers: Numbers, labels: Labels) -> NDArray[np.float64]:
    found: NDArray[np.float64] = (numbers.argmax(axis=1) == labels).astype(np.float64)
    return found


def _squared_distances(numbers: Numbers, labels: Labels) -> NDArray[np.float64]:
    truth = np.eye(numbers.shape[1])[labels.astype(np.int64)]
    found: NDArray[np.float64] = np.square(np.exp(numbers) - truth).sum(axis=1)
    return found


def _gaps(numbers: Numbers, labels: Labels) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return 1 minus confidence for a right top label, minus confidence for a wrong one, and the bin of each sample."""
    confidence, bins = confidence_bins(numbers)
    return _is_right(numbers, labels) - confidence, bins


def confidence_bins(numbers: Numbers) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the probability of each sample's top label, (sample,), and its bin (lo, hi]."""
    confidence = np.minimum(np.exp(numbers.max(axis=1)), 1.0)
    inner_edges = np.arange(1, NUM_BINS) / NUM_BINS
    return confidence, np.searchsorted(inner_edges, confidence)


def _ece_features(numbers: Numbers, labels: Labels) -> csr_array:
    gaps, bins = _gaps(numbers, labels)
    return _in_groups(gaps, bins, NUM_BINS)


def _cc_ece_features(numbers: Numbers, labels: Labels) -> csr_array:
    gaps, bins = _gaps(numbers, labels)
    return _in_groups(gaps, numbers.argmax(axis=1) * NUM_BINS + bins, NUM_BINS * numbers.shape[1])


def _cc_ece_uniform_features(numbers: Numbers, labels: Labels) -> csr_array:
    """Return the features of CC-ECE, and for each class whether it is a sample's predicted class."""
    predicted = _in_groups(np.ones(len(labels)), numbers.argmax(axis=1), numbers.shape[1])
    return joined([_cc_ece_features(numbers, labels), predicted])


def _finish_cc_ece_uniform(means: Means) -> Means:
    num_classes = means.shape[-1] // (NUM_BINS + 1)
    gaps, share = np.split(means, [-num_classes], axis=-1)
    sizes = np.abs(gaps).reshape(*share.shape, NUM_BINS).sum(axis=-1)  # (…, class): the share of a class times its ECE
    found: Means = np.divide(sizes, share, out=np.zeros_like(sizes), where=share > 0).mean(axis=-1)
    return found


def _f1_features(numbers: Numbers, labels: Labels) -> csr_array:
    """Return for each class whether it is a sample's true class, its predicted class, and both."""
    ones, count = np.ones(len(labels)), numbers.shape[1]
    predicted = numbers.argmax(axis=1)
    true = _in_groups(ones, labels.astype(np.int64), count)
    return joined([true, _in_groups(ones, predicted, count), _in_groups(_is_right(numbers, labels), predicted, count)])


def _finish_f1(means: Means) -> Means:
    true, predicted, hits = np.split(means, 3, axis=-1)
    either = true + predicted
    by_class = np.divide(2 * hits, either, out=np.full_like(hits, np.nan), where=either > 0)
    found: Means = np.nanmean(by_class, axis=-1)
    return found


def _sum_of_sizes(means: Means) -> Means:
    found: Means = np.abs(means).sum(axis=-1)
    return found


def _root(means: Means) -> Means:
    return np.sqrt(means[..., 0])


def _squares(numbers: Numbers, targets: Labels) -> csr_array:
    return _column(np.square(numbers[:, 0] - targets))


SAMPLE_METRICS: dict[TaskName, dict[str, SampleMetric]] = {
    "classification": {
        "nll": SampleMetric(lambda numbers, labels: _column(losses("classification", numbers, labels))),
        "accuracy": SampleMetric(lambda numbers, labels: _column(_is_right(numbers, labels))),
        "error": SampleMetric(lambda numbers, labels: _column(1 - _is_right(numbers, labels))),
        "f1": SampleMetric(_f1_features, _finish_f1),
        "brier": SampleMetric(lambda numbers, labels: _column(_squared_distances(numbers, labels))),
        "ece": SampleMetric(_ece_features, _sum_of_sizes),
        "cc_ece": SampleMetric(_cc_ece_features, _sum_of_sizes),
        "cc_ece_uniform": SampleMetric(_cc_ece_uniform_features, _finish_cc_ece_uniform),
    },
    "regression": {
        "nll": SampleMetric(lambda numbers, targets: _column(losses("regression", numbers, targets))),
        "mse": SampleMetric(_squares),
        "rmse": SampleMetric(_squares, _root),
        "mae": SampleMetric(lambda numbers, targets: _column(np.abs(numbers[:, 0] - targets))),
    },
}
"""Metrics that can be compared sample by sample, by task."""
