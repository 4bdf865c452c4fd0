"""Temperature scaling: one number, fitted on held-out data, flattens or sharpens predictions.

A distribution at temperature T is p^(1/T), renormalised. For classes this is softmax(log p / T); for a
Gaussian it is the same mean with T times the variance. Predictions are arrays (sample, [target,] number) as
`sae.records.predictions` keeps them; `sae.measure.calibration` fits tensors by the same code.

On few samples the most likely temperature can be far off: if all classes are predicted right, it is 0. So
pseudo-samples are added, whose targets are drawn from the predictions themselves, and which hold T near 1 (the
conjugate prior of Diaconis and Ylvisaker, 1979). Their weight counts errors, not samples, because hardly anything but
errors tells T: a network with few of them, seen and expected, needs more. `benchmarks/temperature.py` compares rules.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sae.core.objectives import TaskName
from sae.records.predictions import Numbers

COLDEST, HOTTEST = 0.05, 20.0
"""The range of temperatures of classes."""
PRIOR_ERRORS = 10
"""Weight of the prior: the number of errors among its pseudo-samples; every prediction of a real value is one."""
NUM_FOLDS = 5
PRECISION = 1e-6
"""The precision of log T."""
Targets = NDArray[np.number]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature.

    Attributes:
        fitted: T as it was fitted, for remarks only.
        is_bounded: Whether it stopped at the lowest or the highest allowed temperature.
        num_samples: The number of samples that it was fitted on.
    """

    fitted: float
    is_bounded: bool
    num_samples: int

    @property
    def value(self) -> float:
        """T as it is used everywhere: 1 if it stopped at a bound, because such a T is not trusted."""
        return 1.0 if self.is_bounded else self.fitted

    @property
    def remark(self) -> str | None:
        """A remark if it stopped at a bound."""
        if not self.is_bounded:
            return None
        return (
            f"T stopped at the bound {self.fitted:g} of [{COLDEST:g}, {HOTTEST:g}], so the predictions are far "
            f"from calibrated: train longer, or do not trust T."
        )


def fit_temperature(task: TaskName, numbers: Numbers, targets: Targets) -> Temperature:
    """Fit the temperature at which held-out targets, and pseudo-samples from the predictions, are most likely.

    Args:
        task: Decides what the numbers mean.
        numbers: Predictions for the held-out samples, (sample, [target,] number).
        targets: Labels or values of these samples, (sample[, target]).
    """
    count, exact = len(targets), numbers.astype(np.float64).reshape(-1, numbers.shape[-1])
    if task == "regression":
        return Temperature(_fit_variance(exact, targets.ravel()), is_bounded=False, num_samples=count)
    value = _fit_classes(exact, targets.astype(np.int64).ravel())
    return Temperature(value, is_bounded=not COLDEST < value < HOTTEST, num_samples=count)


def held_out_temperatures(task: TaskName, numbers: Numbers, targets: Targets) -> Values:
    """Return for each sample a temperature that was fitted without it, (sample,): on the other four folds of five.

    With these, the same samples can be used to fit a temperature and to evaluate it.

    Args:
        task: Decides what the numbers mean.
        numbers: Predictions for the samples, (sample, number).
        targets: Labels or values of these samples, (sample[, target]).
    """
    found = np.ones(len(targets))
    fold_of = shuffled(len(targets)) % NUM_FOLDS
    for fold in range(NUM_FOLDS):
        kept = fold_of != fold
        if kept.any() and not kept.all():
            found[~kept] = fit_temperature(task, numbers[kept], targets[kept]).value
    return found


def tempered(task: TaskName, numbers: Numbers, temperature: float | Values) -> Numbers:
    """Return predictions at a temperature, or at one for each sample: p^(1/T), or T times the variance.

    Example:
        >>> tempered("regression", np.array([[1.0, 2.0]]), 1.5).tolist()
        [[1.0, 3.0]]
    """
    column = np.broadcast_to(np.asarray(temperature, dtype=np.float64), len(numbers))
    column = column.reshape(-1, *[1] * (numbers.ndim - 1))
    if task == "regression":
        wider: Numbers = np.concatenate([numbers[..., :1], numbers[..., 1:] * column], axis=-1)
        return wider
    scaled = numbers / column
    normalised: Numbers = scaled - _log_sum_exp(scaled)[..., None]
    return normalised


def effect_under_shift(metrics: Mapping[str, float]) -> str:
    """Say what scaling does to the NLL under shift.

    Args:
        metrics: Means over corrupted sets; nothing if they were not measured.

    Example:
        >>> effect_under_shift({"nll": 0.213, "nll_scaled": 0.527})
        'On corrupted images scaling changes the NLL from 0.2130 to 0.5270.'
        >>> effect_under_shift({})
        'What scaling does under shift was not measured.'
    """
    if not {"nll", "nll_scaled"} <= metrics.keys():
        return "What scaling does under shift was not measured."
    return f"On corrupted images scaling changes the NLL from {metrics['nll']:.4f} to {metrics['nll_scaled']:.4f}."


def losses(task: TaskName, numbers: Numbers, targets: NDArray[np.number]) -> NDArray[np.float64]:
    """Return the negative log-likelihood of each sample, the mean over its targets; of values without ½·log 2π."""
    if task == "classification":
        of_targets = np.take_along_axis(numbers, targets.astype(np.int64)[..., None], axis=-1)
        found = -of_targets.astype(np.float64).squeeze(-1)
    else:
        mean, variance = numbers[..., 0], numbers[..., 1]
        found = 0.5 * (np.log(variance) + np.square(targets - mean) / variance)
    return found if found.ndim == 1 else found.mean(axis=1)


def _fit_variance(numbers: Values, targets: Targets) -> float:
    """Return the mean squared standardised error of samples and pseudo-samples; that of the latter is 1."""
    squared = np.square(targets - numbers[:, 0]) / numbers[:, 1]
    return float((squared.sum() + PRIOR_ERRORS) / (len(squared) + PRIOR_ERRORS))


def _fit_classes(log_probs: Values, labels: NDArray[np.int64]) -> float:
    """Return the T at which log-probabilities of classes are expected to be as high as those of the targets are.

    There the derivative of the likelihood by 1/T is 0. The targets are those of samples and pseudo-samples.
    """
    count = len(labels)
    observed = log_probs[np.arange(count), labels].mean()
    seen = (np.count_nonzero(log_probs.argmax(axis=1) != labels) + 1) / (count + 1)  # one more, as there may be none
    expected = 1 - np.exp(log_probs.max(axis=1)).mean()  # a far too modest network expects more errors than it makes
    weight = PRIOR_ERRORS / max(seen, expected)  # number of pseudo-samples
    aim = (count * observed + weight * _expected(log_probs, 1.0)) / (count + weight)
    lower, upper = math.log(COLDEST), math.log(HOTTEST)
    while upper - lower > PRECISION:  # the expectation falls with T
        middle = (lower + upper) / 2
        lower, upper = (middle, upper) if _expected(log_probs, math.exp(middle)) > aim else (lower, middle)
    return COLDEST if lower == math.log(COLDEST) else HOTTEST if upper == math.log(HOTTEST) else math.exp(upper)


def _expected(log_probs: Values, temperature: float) -> float:
    """Return the mean log-probability of targets that are drawn from predictions at a temperature."""
    scaled = log_probs / temperature
    probs = np.exp(scaled - _log_sum_exp(scaled)[:, None])
    return float((probs * log_probs).sum(axis=1).mean())


def shuffled(count: int) -> NDArray[np.int64]:
    """Return the numbers below `count` in the order in which torch's generator with seed 0 shuffles them.

    Runs of earlier versions were measured with these folds.
    """
    draws = np.random.RandomState(0).randint(0, 2**32, max(count - 1, 0), dtype=np.uint32).astype(np.int64)
    order = np.arange(count)
    for place, draw in enumerate(draws):
        other = place + draw % (count - place)
        order[place], order[other] = order[other], order[place]
    return order


def _log_sum_exp(values: Numbers) -> NDArray[np.float64]:
    highest = values.max(axis=-1)
    total: NDArray[np.float64] = highest + np.log(np.exp(values - highest[..., None]).sum(axis=-1))
    return total
