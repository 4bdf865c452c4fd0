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
    if value == 1.0 or (count < ENOUGH and not _improves_held_out(predictive, targets)):
        return Temperature(1.0, is_bounded=False, is_kept_at_one=True, num_samples=count)
    is_bounded = isinstance(predictive, Categorical) and not COLDEST < value < HOTTEST
    return Temperature(value, is_bounded=is_bounded, is_kept_at_one=False, num_samples=count)


def calibrated(predictive: Predictive, temperature: float) -> Predictive:
    """Return the distribution at this temperature; 1 does not change it.

    Class probabilities are float64: different ones stay different, so the most probable class stays the same.

    Example:
        >>> import torch
        >>> calibrated(Gaussian(torch.tensor([1.0]), torch.tensor([2.0])), 1.5)
        Gaussian(mean=tensor([1.]), variance=tensor([3.]))
    """
    if isinstance(predictive, Gaussian):
        return Gaussian(predictive.mean, predictive.variance * temperature)
    return Categorical((predictive.log_probs.double() / temperature).log_softmax(dim=1))


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
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6}).x
    best = min(lower, 0.0, upper, found, key=loss)
    return COLDEST if best == lower else HOTTEST if best == upper else math.exp(best)


def _fit_variance(predictive: Gaussian, targets: Tensor) -> float:
    """Return the mean of squared standardised errors, where the derivative of the likelihood is 0."""
    squared = (targets - predictive.mean).double().square() / predictive.variance.double()
    scale = squared.mean().item()
    if scale == 0:
        raise DataError("the variance cannot be calibrated: all predictions on the validation split are exact")
    return scale


def _improves_held_out(predictive: Predictive, targets: Tensor) -> bool:
    """Return whether temperatures fitted on four fifths of the samples make the others more likely, on average."""
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(0))  # the same in every run
    fold_of = order % NUM_FOLDS
    gain = 0.0
    for fold in range(min(NUM_FOLDS, len(targets))):
        held, kept = fold_of == fold, fold_of != fold
        if not kept.any():
            return False
        temperature = _fit(_rows(predictive, kept), targets[kept])
        before = _rows(predictive, held)
        gain += _nll_sum(before, targets[held]) - _nll_sum(calibrated(before, temperature), targets[held])
    return gain > 0


def _rows(predictive: Predictive, chosen: Tensor) -> Predictive:
    if isinstance(predictive, Gaussian):
        return Gaussian(predictive.mean[chosen], predictive.variance[chosen])
    return Categorical(predictive.log_probs[chosen])


def _nll_sum(predictive: Predictive, targets: Tensor) -> float:
    if isinstance(predictive, Gaussian):
        return gaussian_nll(predictive, targets).double().sum().item()
    return -predictive.log_probs.gather(1, targets[:, None]).double().sum().item()
