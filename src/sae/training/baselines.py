"""Simple baselines on the validation split, which a network must beat to be worth training.

The trivial baseline ignores the inputs: it predicts the share of each class, or the mean. The linear one is
logistic or ridge regression with the default settings of scikit-learn, on the prepared samples.
"""

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from sae.core.task import Classification
from sae.data.batches import Preparation, evaluation_batches
from sae.data.dataset import Dataset, Split

MOST_SAMPLES, MOST_FEATURES = 20_000, 4_096
MOST_PRODUCTS = 20_000_000
"""Most samples × features × outputs that a linear baseline is fitted to; it takes some seconds."""
MOST_ITERATIONS, LARGEST_SLOPE = 200, 1e-4
"""When the fit of a logistic regression ends."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Baselines:
    """Losses on the validation split, lower is better.

    Attributes:
        metric: `nll` for classification, `mse` for regression.
        trivial: Loss of class shares or of the mean.
        linear: Loss of logistic or ridge regression; None if it was left out.
        num_fitted: Training samples that the linear baseline was fitted to.
        num_training: All training samples.
        reason: Why the linear baseline was left out.
    """

    metric: Literal["nll", "mse"]
    trivial: float
    linear: float | None
    num_fitted: int
    num_training: int
    reason: str = ""

    @property
    def names(self) -> tuple[str, str]:
        """Names of the trivial and the linear baseline for people."""
        return ("class shares", "logistic regression") if self.metric == "nll" else ("the mean", "ridge regression")

    def describe(self, loss: float) -> str:
        """Return one line that compares a network with this loss with the baselines."""
        trivial, linear = self.names
        some = f" (on {self.num_fitted:,} of {self.num_training:,} samples)"
        second = (
            f"{linear} left out because {self.reason}"
            if self.linear is None
            else f"{linear} {_short(self.linear)}{some if self.num_fitted < self.num_training else ''}"
        )
        start = f"{self.metric.upper()} on validation: this network {_short(loss)}"
        return f"{start}, {trivial} {_short(self.trivial)}, {second}"

    def warn_about(self, loss: float) -> str | None:
        """Return a sentence if a network with this loss is worse than a baseline, otherwise None."""
        reached = {self.names[0]: self.trivial, self.names[1]: math.inf if self.linear is None else self.linear}
        better = [f"{name} ({_short(value)})" for name, value in reached.items() if value < loss]
        if not better:
            return None
        return (
            f"warning: the network's validation {self.metric.upper()} of {_short(loss)} is worse than that of "
            f"{' and '.join(better)}: train it longer or with other settings, search for them, or use the baseline"
        )


def measure_baselines(dataset: Dataset) -> Baselines:
    """Fit the baselines to the training split and measure them on the validation split."""
    num_training, num_features = len(dataset.train), math.prod(dataset.spec.shape)
    is_classes = isinstance(dataset.spec.task, Classification)
    metric: Literal["nll", "mse"] = "nll" if is_classes else "mse"
    trivial = _shares_nll(dataset) if is_classes else _mean_mse(dataset)
    products = num_features * (dataset.spec.task.num_outputs if is_classes else 1)
    num_fitted = min(num_training, MOST_SAMPLES, MOST_PRODUCTS // products)
    chosen = np.linspace(0, num_training - 1, num_fitted).round().astype(np.int64)
    fitted = Split(dataset.train.inputs[chosen], dataset.train.targets[chosen]) if num_fitted else None
    reason = _obstacle(dataset, fitted, num_features)
    if fitted is None or reason:
        return Baselines(metric, trivial, None, 0, num_training, reason)
    linear = _logistic_nll(dataset, fitted) if is_classes else _ridge_mse(dataset, fitted)
    return Baselines(metric, trivial, linear, num_fitted, num_training)


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _obstacle(dataset: Dataset, fitted: Split | None, num_features: int) -> str:
    if num_features > MOST_FEATURES or fitted is None:
        return f"a sample has {num_features:,} numbers, more than {MOST_FEATURES:,}"
    task = dataset.spec.task
    if isinstance(task, Classification) and len(np.unique(fitted.targets)) < task.num_classes:
        return f"the {len(fitted):,} samples it would be fitted to do not have all {task.num_classes:,} classes"
    return ""


def _prepared(dataset: Dataset, split: Split) -> Iterator[Numbers]:
    """Yield the samples of a split as the network sees them, (sample, feature), a batch at a time."""
    prepare = Preparation(dataset.normalisation, len(dataset.spec.shape), torch.device("cpu"))
    for batch in evaluation_batches(split.inputs, prepare):
        yield batch.flatten(1).double().numpy()


def _shares_nll(dataset: Dataset) -> float:
    counts = (
        np.bincount(dataset.train.targets, minlength=dataset.spec.task.num_outputs) + 1
    )  # + 1, because a class may be missing
    return float(-np.log(counts / counts.sum())[dataset.val.targets].mean())


def _mean_mse(dataset: Dataset) -> float:
    mean = dataset.train.targets.mean(dtype=np.float64)
    return float(np.square(dataset.val.targets - mean).mean())


def _logistic_nll(dataset: Dataset, fitted: Split) -> float:
    inputs, labels = np.concatenate(list(_prepared(dataset, fitted))), fitted.targets.astype(np.int64)
    weights = torch.from_numpy(fit_logistic(inputs, labels, dataset.spec.task.num_outputs))
    batches = (torch.from_numpy(batch) for batch in _prepared(dataset, dataset.val))
    scores = torch.cat([_scores(weights, batch) for batch in batches])
    return float(cross_entropy(scores, torch.from_numpy(dataset.val.targets.astype(np.int64))))


class _Lbfgs(torch.optim.LBFGS):
    """L-BFGS without the import of torch's compiler, which takes longer than the fit."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)


def fit_logistic(
    inputs: Numbers, labels: NDArray[np.int64], num_classes: int, tolerance: float = LARGEST_SLOPE
) -> Numbers:
    """Fit a logistic regression, by the loss and the stopping rule of scikit-learn's.

    Importing scikit-learn, or the optimisers of SciPy, takes longer than a short training. Two classes share one row of
    weights, as they do there.

    Args:
        inputs: (sample, feature).
        labels: (sample,), each class at least once.
        num_classes: At least 2.
        tolerance: The fit ends when no derivative is larger.

    Returns:
        Weights with the bias last, (score, feature + 1).
    """
    num_scores = 1 if num_classes == 2 else num_classes
    samples, targets = torch.from_numpy(inputs), torch.from_numpy(labels)
    weights = torch.zeros(num_scores, inputs.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimizer = _Lbfgs(
        [weights],
        max_iter=MOST_ITERATIONS,
        tolerance_grad=tolerance,
        tolerance_change=np.finfo(np.float64).eps,
        history_size=10,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        weights.grad = None
        value = cross_entropy(_scores(weights, samples), targets) + 0.5 / len(samples) * weights[:, :-1].square().sum()
        value.backward()
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    found: Numbers = weights.detach().numpy()
    return found


def _scores(weights: Tensor, samples: Tensor) -> Tensor:
    """Return one score for each class, (sample, class); a single row of weights is that of the second of two."""
    scores = samples @ weights[:, :-1].T + weights[:, -1]
    return torch.cat([torch.zeros_like(scores), scores], dim=1) if scores.shape[1] == 1 else scores


def _ridge_mse(dataset: Dataset, fitted: Split) -> float:
    predict = fit_ridge(np.concatenate(list(_prepared(dataset, fitted))), fitted.targets.astype(np.float64))
    means = np.concatenate([predict(batch) for batch in _prepared(dataset, dataset.val)])
    return float(np.square(means - dataset.val.targets).mean())


def fit_ridge(inputs: Numbers, targets: Numbers) -> Callable[[Numbers], Numbers]:
    """Fit a ridge regression with a penalty of 1 and a free bias, as scikit-learn's default; return what predicts."""
    centre, mean = inputs.mean(axis=0), targets.mean(axis=0)
    x, y = inputs - centre, targets - mean
    if x.shape[1] > x.shape[0]:  # the same solution, by the smaller of two systems of equations
        weights = x.T @ np.linalg.solve(x @ x.T + np.eye(len(x)), y)
    else:
        weights = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ y)
    return lambda samples: (samples - centre) @ weights + mean
