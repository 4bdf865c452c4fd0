"""Temperature scaling: one number, fitted on held-out data, that makes a distribution flatter or sharper.

A distribution at temperature T is p^(1/T), made to integrate to 1. Of classes that is
softmax(log p / T); of a Gaussian it is the same mean with T times the variance.
"""

import math

from scipy.optimize import minimize_scalar
from torch import Tensor

from sae.core.errors import DataError
from sae.core.predictive import Categorical, Gaussian, Predictive

COLDEST, HOTTEST = 0.05, 20.0
"""Where the temperature of classes is looked for: if all of them are right, the best would be 0."""


def fit_temperature(predictive: Predictive, targets: Tensor) -> float:
    """The temperature at which held-out targets are most likely.

    Args:
        predictive: Of the held-out samples, as the method gives it.
        targets: Their labels or values, (batch,).

    Example:
        >>> import torch
        >>> doubtful = Categorical(torch.tensor([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4], [0.6, 0.4]]).log())
        >>> fit_temperature(doubtful, torch.tensor([0, 0, 0, 1])) < 1  # right more often than it says
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
    """The distribution at this temperature; 1 leaves it as it is.

    Classes are kept in float64, in which none that differ become alike: the most probable stays.

    Example:
        >>> import torch
        >>> calibrated(Gaussian(torch.tensor([1.0]), torch.tensor([2.0])), 1.5)
        Gaussian(mean=tensor([1.]), variance=tensor([3.]))
    """
    if isinstance(predictive, Gaussian):
        return Gaussian(predictive.mean, predictive.variance * temperature)
    return Categorical((predictive.log_probs.double() / temperature).log_softmax(dim=1))


def _fit_variance(predictive: Gaussian, targets: Tensor) -> float:
    """The mean of squared standardised errors: where the derivative of the likelihood is 0."""
    squared = (targets - predictive.mean).double().square() / predictive.variance.double()
    scale = squared.mean().item()
    if scale == 0:
        raise DataError("a variance can be fitted to errors only, however all predictions on val are exact")
    return scale
