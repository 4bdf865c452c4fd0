"""Baselines on the validation split, which a network must beat to be worth training.

The trivial baseline ignores the inputs: it predicts the share of each class, or the mean. The linear one is
logistic or ridge regression, and on tables there is gradient boosting, too, with the default settings of scikit-learn,
on the prepared samples that the network is trained on.
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

from sae.analysis.temperature import losses as losses_of
from sae.core.predictive import as_numbers
from sae.core.task import Classification, SampleKind
from sae.data.batches import Preparation, evaluation_batches
from sae.data.dataset import Dataset, Split
from sae.records.run import RunRecord
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.run import preparation, restore
from sae.training.trainer import torch_threads

MOST_SAMPLES, MOST_FEATURES = 20_000, 4_096
MOST_PRODUCTS = 20_000_000
"""Most samples × features × outputs that a baseline is fitted to; it takes some seconds."""
MOST_BOOSTED = 1_000_000
"""Most samples × classes of gradient boosting, which grows a hundred trees for each class."""
MOST_ITERATIONS, LARGEST_SLOPE = 200, 1e-4
"""When the fit of a logistic regression ends."""
BOOSTING = "gradient boosting"
BEYOND_NOISE = 2.0
"""Standard errors by which a baseline must be better on the validation samples to be called so."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Baseline:
    """A baseline on the validation split.

    Attributes:
        name: Its name for people.
        losses: Loss of each validation sample, (sample,); lower is better.
    """

    name: str
    losses: Numbers

    @property
    def loss(self) -> float:
        """The mean loss."""
        return float(self.losses.mean())

    def is_better_than(self, network: Numbers) -> bool:
        """Return whether the mean loss is below a network's by more than the noise of the validation samples."""
        gain = network - self.losses
        return bool(gain.mean() > BEYOND_NOISE * gain.std(ddof=1) / math.sqrt(len(gain))) if len(gain) > 1 else False


@dataclass(frozen=True)
class Baselines:
    """Baselines on the validation split.

    Attributes:
        metric: `nll` for classification, `mse` for regression.
        found: The trivial one, then those that were fitted.
        num_fitted: Training samples that they were fitted to.
        num_training: All training samples.
        reason: What was left out, and why.
    """

    metric: Literal["nll", "mse"]
    found: tuple[Baseline, ...]
    num_fitted: int
    num_training: int
    reason: str = ""

    @property
    def by_name(self) -> dict[str, float]:
        """The losses by the names of the baselines."""
        return {item.name: item.loss for item in self.found}

    def describe(self, loss: float) -> str:
        """Return one line that compares a network with this loss with the baselines."""
        some = f" (on {self.num_fitted:,} of {self.num_training:,} samples)" if self._is_part else ""
        reached = [f"{item.name} {_short(item.loss)}" for item in self.found]
        start = f"{self.metric.upper()} on validation: this network {_short(loss)}"
        return ", ".join(filter(None, [start, *reached, self.reason])) + some

    @property
    def _is_part(self) -> bool:
        return len(self.found) > 1 and self.num_fitted < self.num_training

    def verdict(self, network: Numbers) -> str | None:
        """Return a sentence if a baseline is better than a network, beyond noise, otherwise None.

        Args:
            network: The network's losses of the validation samples, (sample,).
        """
        better = [item for item in self.found if item.is_better_than(network)]
        if not better:
            return None
        best = min(better, key=lambda item: item.loss)
        name, losses = f"{best.name[:1].upper()}{best.name[1:]}", (_short(best.loss), _short(float(network.mean())))
        return (
            f"{name} is better here: {self.metric.upper()} {losses[0]} on validation, against {losses[1]} of this "
            f"network. Train it longer or with other settings, search for them, or use {best.name}."
        )


def measure_baselines(dataset: Dataset) -> Baselines:
    """Fit the baselines to the training split and measure them on the validation split."""
    num_training, num_features = len(dataset.train), math.prod(dataset.spec.shape)
    is_classes = isinstance(dataset.spec.task, Classification)
    metric: Literal["nll", "mse"] = "nll" if is_classes else "mse"
    trivial = Baseline("class shares", _shares_nll(dataset)) if is_classes else Baseline("the mean", _mean_mse(dataset))
    products = num_features * (dataset.spec.task.num_outputs if is_classes else 1)
    num_fitted = min(num_training, MOST_SAMPLES, MOST_PRODUCTS // products)
    chosen = np.linspace(0, num_training - 1, num_fitted).round().astype(np.int64)
    fitted = Split(dataset.train.inputs[chosen], dataset.train.targets[chosen]) if num_fitted else None
    reason = _obstacle(dataset, fitted, num_features)
    if fitted is None or reason:
        return Baselines(metric, (trivial,), 0, num_training, f"{_linear_name(metric)} left out because {reason}")
    found = [trivial, Baseline(_linear_name(metric), (_logistic_nll if is_classes else _ridge_mse)(dataset, fitted))]
    if dataset.spec.kind is not SampleKind.TABLE:
        return Baselines(metric, tuple(found), num_fitted, num_training)
    if num_fitted * dataset.spec.task.num_outputs > MOST_BOOSTED:
        reason = f"{BOOSTING} left out because there are {dataset.spec.task.num_outputs:,} classes"
    else:
        found.append(Baseline(BOOSTING, _boosted(dataset, fitted)))
    return Baselines(metric, tuple(found), num_fitted, num_training, reason)


def network_losses(record: RunRecord) -> Numbers:
    """Return the loss of each validation sample in the baselines' metric, at the number of exits that is read."""
    settings = record.read_config().train
    with torch_threads(settings.threads):
        method, dataset = restore(record)
        outputs = member_outputs(method, evaluation_batches(dataset.val.inputs, preparation(dataset, settings.device)))
        numbers = as_numbers(predictive_at(method, outputs, record.exits_to_read(None))).double().numpy()
    if isinstance(dataset.spec.task, Classification):
        return losses_of("classification", numbers, dataset.val.targets)
    return np.square(numbers[:, 0] - dataset.val.targets)


def _linear_name(metric: str) -> str:
    return "logistic regression" if metric == "nll" else "ridge regression"


def _boosted(dataset: Dataset, fitted: Split) -> Numbers:
    """Return the losses of gradient boosting; on one thread, so that they do not depend on the number of cores."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    is_classes = isinstance(dataset.spec.task, Classification)
    kind = HistGradientBoostingClassifier if is_classes else HistGradientBoostingRegressor
    inputs, val = (np.concatenate(list(_prepared(dataset, split))) for split in (fitted, dataset.val))
    targets = dataset.val.targets
    with threadpool_limits(1):
        model = kind(random_state=0, early_stopping=False).fit(inputs, fitted.targets)  # stopping needs two of a class
        if not is_classes:
            squared: Numbers = np.square(model.predict(val) - targets)
            return squared
        probs: Numbers = model.predict_proba(val)[np.arange(len(targets)), targets.astype(np.int64)]
        return -np.log(np.maximum(probs, np.finfo(np.float64).tiny))


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


def _shares_nll(dataset: Dataset) -> Numbers:
    counts = (
        np.bincount(dataset.train.targets, minlength=dataset.spec.task.num_outputs) + 1
    )  # + 1, because a class may be missing
    losses: Numbers = -np.log(counts / counts.sum())[dataset.val.targets]
    return losses


def _mean_mse(dataset: Dataset) -> Numbers:
    squared: Numbers = np.square(dataset.val.targets - dataset.train.targets.mean(dtype=np.float64))
    return squared


def _logistic_nll(dataset: Dataset, fitted: Split) -> Numbers:
    inputs, labels = np.concatenate(list(_prepared(dataset, fitted))), fitted.targets.astype(np.int64)
    weights = torch.from_numpy(fit_logistic(inputs, labels, dataset.spec.task.num_outputs))
    batches = (torch.from_numpy(batch) for batch in _prepared(dataset, dataset.val))
    scores = torch.cat([_scores(weights, batch) for batch in batches])
    labels_of_val = torch.from_numpy(dataset.val.targets.astype(np.int64))
    found: Numbers = cross_entropy(scores, labels_of_val, reduction="none").numpy()
    return found


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


def _ridge_mse(dataset: Dataset, fitted: Split) -> Numbers:
    predict = fit_ridge(np.concatenate(list(_prepared(dataset, fitted))), fitted.targets.astype(np.float64))
    means = np.concatenate([predict(batch) for batch in _prepared(dataset, dataset.val)])
    return np.square(means - dataset.val.targets)


def fit_ridge(inputs: Numbers, targets: Numbers) -> Callable[[Numbers], Numbers]:
    """Fit a ridge regression with a penalty of 1 and a free bias, as scikit-learn's default; return what predicts."""
    centre, mean = inputs.mean(axis=0), targets.mean(axis=0)
    x, y = inputs - centre, targets - mean
    if x.shape[1] > x.shape[0]:  # the same solution, by the smaller of two systems of equations
        weights = x.T @ np.linalg.solve(x @ x.T + np.eye(len(x)), y)
    else:
        weights = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ y)
    return lambda samples: (samples - centre) @ weights + mean
