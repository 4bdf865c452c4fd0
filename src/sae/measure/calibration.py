"""Calibration of predictive distributions by temperature scaling; `sae.analysis.temperature` has the rule."""

import torch
from torch import Tensor

from sae.analysis import temperature as scaling
from sae.analysis.temperature import Temperature
from sae.core.objectives import TaskName
from sae.core.predictive import Categorical, Gaussian, Predictive, as_numbers
from sae.records.predictions import Numbers


def fit_temperature(predictive: Predictive, targets: Tensor) -> Temperature:
    """Fit the temperature at which held-out targets, and pseudo-samples from the predictions, are most likely.

    Args:
        predictive: The predictions for the held-out samples.
        targets: The labels or values of these samples, (batch[, target]).

    Example:
        >>> import torch
        >>> doubtful = Categorical(torch.tensor([[0.6, 0.4]]).log().expand(40, 2))
        >>> fit_temperature(doubtful, torch.arange(40) % 8 // 7).value < 1  # right more often than predicted
        True
    """
    return scaling.fit_temperature(*_arrays(predictive), targets.numpy())


def held_out_temperatures(predictive: Predictive, targets: Tensor) -> Tensor:
    """Return for each sample a temperature that was fitted without it, (batch,): on the other four folds of five."""
    return torch.from_numpy(scaling.held_out_temperatures(*_arrays(predictive), targets.numpy()))


def cross_calibrated(predictive: Predictive, targets: Tensor) -> Predictive:
    """Return the distribution of each sample at a temperature that was fitted on the other four folds of five."""
    return calibrated(predictive, held_out_temperatures(predictive, targets))


def calibrated(predictive: Predictive, temperature: float | Tensor) -> Predictive:
    """Return the distribution at this temperature, or at one for each sample; 1 does not change it.

    Class probabilities are float64, so that different ones stay different and the most probable class does not change.

    Example:
        >>> import torch
        >>> calibrated(Gaussian(torch.tensor([1.0]), torch.tensor([2.0])), 1.5)
        Gaussian(mean=tensor([1.]), variance=tensor([3.]))
    """
    if isinstance(predictive, Gaussian):
        return Gaussian(predictive.mean, predictive.variance * beside(temperature, predictive.variance))
    return Categorical((predictive.log_probs.double() / beside(temperature, predictive.log_probs)).log_softmax(dim=-1))


def beside(temperature: float | Tensor, values: Tensor) -> float | Tensor:
    """Return a temperature for each sample in a form that multiplies values, (batch, …)."""
    return temperature.view(-1, *[1] * (values.dim() - 1)) if isinstance(temperature, Tensor) else temperature


def _arrays(predictive: Predictive) -> tuple[TaskName, Numbers]:
    """Return the task and the predictions, (batch, [target,] number), in the layout of kept predictions."""
    task: TaskName = "classification" if isinstance(predictive, Categorical) else "regression"
    return task, as_numbers(predictive).double().numpy()
