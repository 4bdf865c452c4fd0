"""Temperature scaling: one number, fitted on held-out data, flattens or sharpens predictions.

A distribution at temperature T is p^(1/T), renormalised. For classes this is softmax(log p / T); for a
Gaussian it is the same mean with T times the variance. Predictions are arrays (sample, number) as
`sae.records.predictions` keeps them; `sae.measure.calibration` fits tensors by the same code.

On few samples the most likely temperature of classes can be far off: if all of them are predicted
right, it is 0. A prior with the weight of less than one sample prevents this.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import DataError
from sae.core.objectives import TaskName
from sae.records.predictions import Numbers

COLDEST, HOTTEST = 0.05, 20.0
"""The range of temperatures of classes."""
PRIOR_SCALE = 0.5
"""The scale of the Cauchy prior on log T: half of it lies between T = 0.61 and 1.65."""
ENOUGH = 500
"""The fewest samples on which a fitted temperature is used without cross-validation."""
NUM_FOLDS = 5
GRID = 32
"""Parts that a range of log T is cut into; the two around the best temperature are the next range."""
NEWTON_STEPS = 12
LONGEST_STEP = 0.5
"""The longest step in log T that Newton's method may take from a good guess."""
PRECISION = 1e-6
"""The precision of log T."""
Targets = NDArray[np.number]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature.

    Attributes:
        value: T.
        is_bounded: Whether it stopped at the lowest or the highest allowed temperature.
        is_kept_at_one: Whether it is 1 because a fitted T did not improve the likelihood of held-out samples.
        num_samples: The number of samples that it was fitted on.
    """

    value: float
    is_bounded: bool
    is_kept_at_one: bool
    num_samples: int

    @property
    def applied(self) -> float:
        """T as it is used: 1 if it stopped at a bound, because such a T is not trusted."""
        return 1.0 if self.is_bounded else self.value

    @property
    def remark(self) -> str | None:
        """A remark if it stayed 1 or stopped at a bound."""
        if self.is_kept_at_one:
            return (
                f"T stays 1, because a fitted T did not improve the NLL in a {NUM_FOLDS}-fold cross-validation on "
                f"the {self.num_samples} validation samples."
            )
        if self.is_bounded:
            return (
                f"T stopped at the bound {self.value:g} of [{COLDEST:g}, {HOTTEST:g}], so the predictions are far "
                f"from calibrated: train longer, or do not trust T."
            )
        return None


def fit_temperature(task: TaskName, numbers: Numbers, targets: Targets) -> Temperature:
    """Fit the temperature at which held-out targets are most likely.

    With fewer than 500 samples it stays 1 unless cross-validation on them shows that fitting helps.

    Args:
        task: Decides what the numbers mean.
        numbers: Predictions for the held-out samples, (sample, number).
        targets: Labels or values of these samples, (sample,).
    """
    count = len(targets)
    value = _fit(task, numbers, targets)
    if value == 1.0 or (count < ENOUGH and not _improves_held_out(task, numbers, targets, value)):
        return Temperature(1.0, is_bounded=False, is_kept_at_one=True, num_samples=count)
    is_bounded = task == "classification" and not COLDEST < value < HOTTEST
    return Temperature(value, is_bounded=is_bounded, is_kept_at_one=False, num_samples=count)


def held_out_temperatures(task: TaskName, numbers: Numbers, targets: Targets, fitted: Temperature) -> Values:
    """Return for each sample a temperature that was fitted without it, (sample,): on the other four folds of five.

    With these, the same samples can be used to fit a temperature and to evaluate it.

    Args:
        task: Decides what the numbers mean.
        numbers: Predictions for the samples, (sample, number).
        targets: Labels or values of these samples, (sample,).
        fitted: The temperature fitted on all of them. If it was kept at 1, so are all of these.
    """
    if fitted.is_kept_at_one:
        return np.ones(len(targets))
    return _fit_held_out(task, numbers, targets, fitted.value)


def tempered(task: TaskName, numbers: Numbers, temperature: float | Values) -> Numbers:
    """Return predictions at a temperature, or at one for each sample: p^(1/T), or T times the variance.

    Example:
        >>> tempered("regression", np.array([[1.0, 2.0]]), 1.5).tolist()
        [[1.0, 3.0]]
    """
    column = np.broadcast_to(np.asarray(temperature, dtype=np.float64), len(numbers))[:, None]
    if task == "regression":
        wider: Numbers = np.concatenate([numbers[:, :1], numbers[:, 1:] * column], axis=1)
        return wider
    scaled = numbers / column
    normalised: Numbers = scaled - _log_sum_exp(scaled)[:, None]
    return normalised


def losses(task: TaskName, numbers: Numbers, targets: NDArray[np.number]) -> NDArray[np.float64]:
    """Return the negative log-likelihood of each target, (sample,); for real values without ½·log 2π."""
    if task == "classification":
        of_targets: NDArray[np.float64] = numbers[np.arange(len(targets)), targets.astype(np.int64)].astype(np.float64)
        return -of_targets
    mean, variance = numbers[:, 0], numbers[:, 1]
    found: NDArray[np.float64] = 0.5 * (np.log(variance) + np.square(targets - mean) / variance)
    return found


def _fit(task: TaskName, numbers: Numbers, targets: Targets) -> float:
    if task == "classification":
        return _fit_classes(numbers.astype(np.float64), targets.astype(np.int64))
    scale = _mean_squared(numbers, targets)
    if scale == 0:
        raise DataError("the variance cannot be calibrated: all predictions on the validation split are exact")
    return scale


def _mean_squared(numbers: Numbers, targets: Targets) -> float:
    """Return the mean of squared standardised errors: the scale at which the derivative of the likelihood is 0."""
    exact = numbers.astype(np.float64)
    return float(np.mean(np.square(targets - exact[:, 0]) / exact[:, 1]))


def _fit_classes(log_probs: Values, labels: NDArray[np.int64]) -> float:
    """Return the most probable temperature, given the samples and the prior."""
    right = float(log_probs[np.arange(len(labels)), labels].mean())

    def loss(log_temperature: float) -> float:
        factor = math.exp(-log_temperature)
        prior = math.log1p((log_temperature / PRIOR_SCALE) ** 2) / len(labels)
        return float(np.mean(_log_sum_exp(log_probs * factor))) - right * factor + prior

    # The likelihood has one minimum in log T, but with the prior there may be two.
    lower, upper = math.log(COLDEST), math.log(HOTTEST)
    found, reach = (lower + upper) / 2, (upper - lower) / 2
    while reach > PRECISION:
        grid = np.linspace(max(lower, found - reach), min(upper, found + reach), GRID + 1).tolist()
        found, reach = min(grid, key=loss), 2 * reach / GRID
        refined = _newton(log_probs, labels, found)
        if refined is not None and abs(math.log(refined) - found) <= reach:
            found = math.log(refined)
            break
    best = min(lower, 0.0, upper, found, key=loss)
    return COLDEST if best == lower else HOTTEST if best == upper else math.exp(best)


def _fit_near(task: TaskName, numbers: Numbers, targets: Targets, start: float) -> float:
    """Fit a temperature from a good guess, which for classes takes a tenth of the work of `_fit`."""
    if task == "regression":
        return _mean_squared(numbers, targets) or start
    log_probs, labels = numbers.astype(np.float64), targets.astype(np.int64)
    return _newton(log_probs, labels, math.log(start)) or _fit_classes(log_probs, labels)


def _newton(log_probs: Values, labels: NDArray[np.int64], log_temperature: float) -> float | None:
    """Return the temperature that Newton's method finds from a start, or None if it may not converge."""
    right = float(log_probs[np.arange(len(labels)), labels].mean())
    for _ in range(NEWTON_STEPS):
        inverse = math.exp(-log_temperature)
        scaled = log_probs * inverse
        weighted = np.exp(scaled - _log_sum_exp(scaled)[:, None]) * log_probs
        mean = weighted.sum(axis=1)
        slope = (float(mean.mean()) - right) * inverse  # −d NLL / d log T
        curvature = float(((weighted * log_probs).sum(axis=1) - np.square(mean)).mean()) * inverse**2
        squares = PRIOR_SCALE**2 + log_temperature**2
        first = -slope + 2 * log_temperature / squares / len(labels)
        second = curvature + slope + 2 * (PRIOR_SCALE**2 - log_temperature**2) / squares**2 / len(labels)
        if not second > 0:
            return None
        step = first / second
        log_temperature -= step
        if abs(step) > LONGEST_STEP or not math.log(COLDEST) < log_temperature < math.log(HOTTEST):
            return None
        if abs(step) < PRECISION:
            return math.exp(log_temperature)
    return None


def _improves_held_out(task: TaskName, numbers: Numbers, targets: Targets, value: float) -> bool:
    """Return whether temperatures fitted on four fifths of the samples make the others more likely, on average."""
    scaled = tempered(task, numbers.astype(np.float64), _fit_held_out(task, numbers, targets, value))
    return float(losses(task, numbers, targets).sum()) > float(losses(task, scaled, targets).sum())


def _fit_held_out(task: TaskName, numbers: Numbers, targets: Targets, value: float) -> Values:
    """Return for each sample the temperature fitted on the other folds, starting from `value`, (sample,)."""
    found = np.ones(len(targets))
    fold_of = shuffled(len(targets)) % NUM_FOLDS
    for fold in range(min(NUM_FOLDS, len(targets))):
        kept = fold_of != fold
        if kept.any():
            found[~kept] = _fit_near(task, numbers[kept], targets[kept], value)
    return found


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
    highest = values.max(axis=1)
    total: NDArray[np.float64] = highest + np.log(np.exp(values - highest[:, None]).sum(axis=1))
    return total
