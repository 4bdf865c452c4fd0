"""Calibration by temperature scaling: one number, fitted on held-out data, flattens or sharpens predictions.

A distribution at temperature T is p^(1/T), renormalised. For classes this is
softmax(log p / T); for a Gaussian it is the same mean with T times the variance.
"""

import math

from scipy.optimize import minimize_scalar
from torch import Tensor

from sae.core.errors import DataError
from sae.core.predictive import Categorical, Gaussian, Predictive

COLDEST, HOTTEST = 0.05, 20.0
"""The range of temperatures of classes: if all predictions are right, the best temperature would be 0."""


def fit_temperature(predictive: Predictive, targets: Tensor) -> float:
    """Fit the temperature at which held-out targets are most likely.

    Args:
        predictive: The predictions for the held-out samples.
        targets: The labels or values of these samples, (batch,).

    Example:
        >>> import torch
        >>> doubtful = Categorical(torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4], [0.6, 0.4]]).log())
        >>> fit_temperature(doubtful, torch.tensor([0, 0, 0, 1])) < 1  # right more often than predicted
        True
    """
    if isinstance(predictive, Gaussian):
        return _fit_variance(predictive, targets)
    log_probs = predictive.log_probs.double()

    def nll(log_temperature: float) -> float:
        tempered = (log_probs * math.exp(-log_temperature)).log_softmax(dim=1)
        return -tempered.gather(1, targets[:, None]).mean().item()

    # Convex in 1/T, so with one minimum in log T.
    found = minimize_scalar(nll, bounds=(math.log(COLDEST), math.log(HOTTEST)), method="bounded")
    return math.exp(found.x) if found.fun < nll(0.0) else 1.0


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


def _fit_variance(predictive: Gaussian, targets: Tensor) -> float:
    """Return the mean of squared standardised errors, where the derivative of the likelihood is 0."""
    squared = (targets - predictive.mean).double().square() / predictive.variance.double()
    scale = squared.mean().item()
    if scale == 0:
        raise DataError("the variance cannot be calibrated: all predictions on the validation split are exact")
    return scale
