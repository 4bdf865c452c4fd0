"""Temperature scaling of kept predictions, without torch: the same rule as `sae.measure.calibration`.

Predictions are arrays (sample, number) as `sae.records.predictions` keeps them.
"""

import math

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
"""The number of temperatures among which the best is looked for, before it is made precise."""


def fit_temperature(task: TaskName, numbers: Numbers, targets: NDArray[np.number]) -> float:
    """Return the temperature at which held-out targets are most likely.

    With fewer than 500 samples it stays 1 unless cross-validation on them shows that fitting helps.

    Args:
        task: Decides what the numbers mean.
        numbers: Predictions for the held-out samples, (sample, number).
        targets: Labels or values of these samples, (sample,).
    """
    value = _fit(task, numbers, targets)
    if len(targets) < ENOUGH and not _improves_held_out(task, numbers, targets):
        return 1.0
    return value


def tempered(task: TaskName, numbers: Numbers, temperature: float) -> Numbers:
    """Return predictions at a temperature: p^(1/T), or T times the variance.

    Example:
        >>> tempered("regression", np.array([[1.0, 2.0]]), 1.5).tolist()
        [[1.0, 3.0]]
    """
    if task == "regression":
        wider: Numbers = numbers * np.array([1.0, temperature])
        return wider
    scaled = numbers / temperature
    normalised: Numbers = scaled - _log_sum_exp(scaled)[:, None]
    return normalised


def losses(task: TaskName, numbers: Numbers, targets: NDArray[np.number]) -> NDArray[np.float64]:
    """Return the negative log-likelihood of each target, (sample,); of a real value without ½·log 2π."""
    if task == "classification":
        of_targets: NDArray[np.float64] = numbers[np.arange(len(targets)), targets.astype(np.int64)].astype(np.float64)
        return -of_targets
    mean, variance = numbers[:, 0], numbers[:, 1]
    found: NDArray[np.float64] = 0.5 * (np.log(variance) + np.square(targets - mean) / variance)
    return found


def _fit(task: TaskName, numbers: Numbers, targets: NDArray[np.number]) -> float:
    if task == "classification":
        return _fit_classes(numbers.astype(np.float64), targets.astype(np.int64))
    scale = float(np.mean(np.square(targets - numbers[:, 0]) / numbers[:, 1]))
    if scale == 0:
        raise DataError("the variance cannot be calibrated: all predictions on the validation split are exact")
    return scale


def _fit_classes(log_probs: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Return the temperature that is most probable after the samples and the prior."""
    from scipy.optimize import minimize_scalar

    chosen = log_probs[np.arange(len(labels)), labels]

    def loss(log_temperature: float) -> float:
        factor = math.exp(-log_temperature)
        prior = math.log1p((log_temperature / PRIOR_SCALE) ** 2) / len(labels)
        return float(np.mean(_log_sum_exp(log_probs * factor) - chosen * factor)) + prior

    # The likelihood has one minimum in log T, but with the prior there may be two.
    lower, upper = math.log(COLDEST), math.log(HOTTEST)
    step = (upper - lower) / GRID
    near = min((lower + index * step for index in range(GRID + 1)), key=loss)
    bounds = (max(lower, near - step), min(upper, near + step))
    found = float(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6}).x)
    best = min(lower, 0.0, upper, found, key=loss)
    return COLDEST if best == lower else HOTTEST if best == upper else math.exp(best)


def _improves_held_out(task: TaskName, numbers: Numbers, targets: NDArray[np.number]) -> bool:
    """Return whether temperatures fitted on four fifths of the samples make the others more likely, on average."""
    fold_of = shuffled(len(targets)) % NUM_FOLDS
    gain = 0.0
    for fold in range(min(NUM_FOLDS, len(targets))):
        held, kept = fold_of == fold, fold_of != fold
        if not kept.any():
            return False
        temperature = _fit(task, numbers[kept], targets[kept])
        before = numbers[held]
        gain += float(losses(task, before, targets[held]).sum())
        gain -= float(losses(task, tempered(task, before, temperature), targets[held]).sum())
    return gain > 0


def shuffled(count: int) -> NDArray[np.int64]:
    """Return the numbers below `count` in the order that torch's generator with seed 0 shuffles them.

    Folds, and with them temperatures, are then those of `sae.measure.calibration`.
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
