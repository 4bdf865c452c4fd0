"""Calibration by temperature scaling: one number, fitted on held-out data, flattens or sharpens predictions.

A distribution at temperature T is p^(1/T), renormalised. For classes this is
softmax(log p / T); for a Gaussian it is the same mean with T times the variance.

On few samples the most likely temperature of classes can be far off: if all of them are predicted
right, it is 0. A prior holds it back, whose weight is that of less than one sample.
"""

import math
from dataclasses import dataclass

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from sae.analysis.temperature import COLDEST, ENOUGH, GRID, HOTTEST, NUM_FOLDS, PRIOR_SCALE
from sae.core.errors import DataError
from sae.core.predictive import Categorical, Gaussian, Predictive, gaussian_nll

NEWTON_STEPS = 12
LONGEST_STEP = 0.5
"""The longest step in log T that Newton's method may take from a good guess."""
PRECISION = 1e-6
"""The precision of log T."""


@dataclass(frozen=True)
class Temperature:
    """A fitted temperature.

    Attributes:
        value: T.
        is_bounded: Whether it stopped at the coldest or the hottest that is allowed.
        is_kept_at_one: Whether it is 1 because a fitted one did not improve the likelihood of held-out samples.
        num_samples: The number of samples that it was fitted on.
    """

    value: float
    is_bounded: bool
    is_kept_at_one: bool
    num_samples: int

    @property
    def remark(self) -> str | None:
        """Say in one sentence what is special about it, if anything is."""
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


def fit_temperature(predictive: Predictive, targets: Tensor) -> Temperature:
    """Fit the temperature at which held-out targets are most likely.

    With fewer than 500 samples it stays 1 unless cross-validation on them shows that fitting helps.

    Args:
        predictive: The predictions for the held-out samples.
        targets: The labels or values of these samples, (batch,).

    Example:
        >>> import torch
        >>> doubtful = Categorical(torch.tensor([[0.6, 0.4]]).log().expand(40, 2))
        >>> fit_temperature(doubtful, torch.arange(40) % 8 // 7).value < 1  # right more often than predicted
        True
    """
    count = len(targets)
    value = _fit(predictive, targets)
    if value == 1.0 or (count < ENOUGH and not _improves_held_out(predictive, targets, value)):
        return Temperature(1.0, is_bounded=False, is_kept_at_one=True, num_samples=count)
    is_bounded = isinstance(predictive, Categorical) and not COLDEST < value < HOTTEST
    return Temperature(value, is_bounded=is_bounded, is_kept_at_one=False, num_samples=count)


def fit_or_keep(predictive: Predictive, targets: Tensor) -> Temperature:
    """Fit the temperature like `fit_temperature`, but keep it at 1 where the variance of exact predictions is asked."""
    try:
        return fit_temperature(predictive, targets)
    except DataError:
        return Temperature(1.0, is_bounded=False, is_kept_at_one=True, num_samples=len(targets))


def held_out_temperatures(predictive: Predictive, targets: Tensor, fitted: Temperature) -> Tensor:
    """Return for each sample a temperature that was fitted without it, (batch,): on the other folds of five.

    With it, the samples that a temperature is fitted on can also say how well it does.

    Args:
        predictive: The predictions for the samples.
        targets: The labels or values of these samples, (batch,).
        fitted: The temperature that was fitted on all of them. If it was kept at 1, so are all of these.
    """
    if fitted.is_kept_at_one:
        return torch.ones(len(targets), dtype=torch.float64)
    return _fit_held_out(predictive, targets, fitted.value)


def cross_calibrated(predictive: Predictive, targets: Tensor) -> Predictive:
    """Return the distribution of each sample at a temperature that was fitted on the other folds of five."""
    return calibrated(predictive, held_out_temperatures(predictive, targets, fit_or_keep(predictive, targets)))


def calibrated(predictive: Predictive, temperature: float | Tensor) -> Predictive:
    """Return the distribution at this temperature, or at one for each sample; 1 does not change it.

    Class probabilities are float64: different ones stay different, so the most probable class stays the same.

    Example:
        >>> import torch
        >>> calibrated(Gaussian(torch.tensor([1.0]), torch.tensor([2.0])), 1.5)
        Gaussian(mean=tensor([1.]), variance=tensor([3.]))
    """
    if isinstance(predictive, Gaussian):
        return Gaussian(predictive.mean, predictive.variance * temperature)
    divisor = temperature[:, None] if isinstance(temperature, Tensor) else temperature
    return Categorical((predictive.log_probs.double() / divisor).log_softmax(dim=1))


def _fit(predictive: Predictive, targets: Tensor) -> float:
    return (
        _fit_variance(predictive, targets)
        if isinstance(predictive, Gaussian)
        else _fit_classes(predictive.log_probs.double(), targets)
    )


def _fit_classes(log_probs: Tensor, labels: Tensor) -> float:
    """Return the temperature that is most probable after the samples and the prior."""

    def loss(log_temperature: float) -> float:
        tempered = (log_probs * math.exp(-log_temperature)).log_softmax(dim=1)
        prior = math.log1p((log_temperature / PRIOR_SCALE) ** 2) / len(labels)
        return -tempered.gather(1, labels[:, None]).mean().item() + prior

    # The likelihood has one minimum in log T, but with the prior there may be two.
    lower, upper = math.log(COLDEST), math.log(HOTTEST)
    step = (upper - lower) / GRID
    near = min((lower + index * step for index in range(GRID + 1)), key=loss)
    bounds = (max(lower, near - step), min(upper, near + step))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": PRECISION}).x
    best = min(lower, 0.0, upper, found, key=loss)
    return COLDEST if best == lower else HOTTEST if best == upper else math.exp(best)


def _fit_near(predictive: Predictive, targets: Tensor, start: float) -> float:
    """Fit a temperature of which a good guess is known, a tenth of the work of `_fit` for classes."""
    if isinstance(predictive, Gaussian):
        return _mean_squared(predictive, targets) or start
    log_probs = predictive.log_probs.double()
    return _newton(log_probs, targets, math.log(start)) or _fit_classes(log_probs, targets)


def _newton(log_probs: Tensor, labels: Tensor, log_temperature: float) -> float | None:
    """Return the temperature that Newton's method finds from a start, or None where it is not sure to help."""
    right, bounds = log_probs.gather(1, labels[:, None]).mean().item(), (math.log(COLDEST), math.log(HOTTEST))
    for _ in range(NEWTON_STEPS):
        inverse = math.exp(-log_temperature)
        probs = (log_probs * inverse).softmax(dim=1)
        weighted = probs * log_probs
        mean = weighted.sum(dim=1)
        slope = (mean.mean().item() - right) * inverse  # −d NLL / d log T
        curvature = ((weighted * log_probs).sum(dim=1) - mean.square()).mean().item() * inverse**2
        squares = PRIOR_SCALE**2 + log_temperature**2
        first = -slope + 2 * log_temperature / squares / len(labels)
        second = curvature + slope + 2 * (PRIOR_SCALE**2 - log_temperature**2) / squares**2 / len(labels)
        if not second > 0:
            return None
        step = first / second
        log_temperature -= step
        if abs(step) > LONGEST_STEP or not bounds[0] < log_temperature < bounds[1]:
            return None
        if abs(step) < PRECISION:
            return math.exp(log_temperature)
    return None


def _fit_variance(predictive: Gaussian, targets: Tensor) -> float:
    """Return the scale at which the derivative of the likelihood is 0."""
    scale = _mean_squared(predictive, targets)
    if scale == 0:
        raise DataError("the variance cannot be calibrated: all predictions on the validation split are exact")
    return scale


def _mean_squared(predictive: Gaussian, targets: Tensor) -> float:
    """Return the mean of squared standardised errors."""
    return ((targets - predictive.mean).double().square() / predictive.variance.double()).mean().item()


def _improves_held_out(predictive: Predictive, targets: Tensor, value: float) -> bool:
    """Return whether temperatures fitted on four fifths of the samples make the others more likely, on average."""
    tempered = calibrated(predictive, _fit_held_out(predictive, targets, value))
    return _nll_sum(predictive, targets) > _nll_sum(tempered, targets)


def _fit_held_out(predictive: Predictive, targets: Tensor, value: float) -> Tensor:
    """Return for each sample the temperature fitted on the other folds, near one that was fitted on all, (batch,)."""
    found = torch.ones(len(targets), dtype=torch.float64)
    fold_of = _fold_of(len(targets))
    for fold in range(min(NUM_FOLDS, len(targets))):
        kept = fold_of != fold
        if kept.any():
            found[~kept] = _fit_near(_rows(predictive, kept), targets[kept], value)
    return found


def _fold_of(num_samples: int) -> Tensor:
    """Return the fold of each sample, the same in every run, (batch,)."""
    return torch.randperm(num_samples, generator=torch.Generator().manual_seed(0)) % NUM_FOLDS


def _rows(predictive: Predictive, chosen: Tensor) -> Predictive:
    if isinstance(predictive, Gaussian):
        return Gaussian(predictive.mean[chosen], predictive.variance[chosen])
    return Categorical(predictive.log_probs[chosen])


def _nll_sum(predictive: Predictive, targets: Tensor) -> float:
    if isinstance(predictive, Gaussian):
        return gaussian_nll(predictive, targets).double().sum().item()
    return -predictive.log_probs.gather(1, targets[:, None]).double().sum().item()
