"""Baselines that a network must beat to be worth training, fitted by scikit-learn with its default settings.

The trivial baseline ignores the inputs: it predicts the share of each class, or the mean. The linear one is
logistic or ridge regression, and on tables there is gradient boosting, too, on the prepared samples that the network
is trained on. Images and signals are pooled where they have many numbers.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool1d, adaptive_avg_pool2d

from sae.analysis.baselines import COMPARED, NETWORK, losses_of_samples, measured
from sae.core.objectives import TaskName
from sae.core.predictive import as_numbers
from sae.core.task import Classification, Counts, SampleKind, num_targets
from sae.data.batches import Preparation, evaluation_batches
from sae.data.dataset import Dataset, Split
from sae.records.baselines import Baselines, Measured
from sae.records.run import RunRecord
from sae.training.evaluator import member_outputs, predictive_at
from sae.training.predictions import hash_of
from sae.training.run import preparation, restore
from sae.training.trainer import torch_threads

MOST_SAMPLES, MOST_FEATURES = 20_000, 4_096
MOST_PRODUCTS = 20_000_000
"""Most samples × features × outputs that a baseline is fitted to; it takes some seconds."""
MOST_BOOSTED = 1_000_000
"""Most samples × classes of gradient boosting, which grows a hundred trees for each class."""
MOST_POOLED = 1_024
"""Most numbers of an image or signal for the linear baseline."""
MOST_READ = 200_000_000
"""Most numbers of images that are read to be pooled."""
MOST_ITERATIONS = 200
BOOSTING = "gradient boosting"

Numbers = NDArray[np.float64]
Predict = Callable[[Numbers], Numbers]
"""Predicts samples, (sample, feature), as `sae.records.predictions` keeps them, (sample, [target,] number)."""
WITHOUT: Numbers = np.zeros((0, 0))
"""The inputs of a baseline that ignores them."""
Targets = NDArray[np.number]
Fit = Callable[[Numbers, Targets], Predict]
"""Fits a model to samples, (sample, feature), and targets, (sample,)."""


def measure_baselines(dataset: Dataset) -> Baselines:
    """Fit the baselines to the training split and measure them on validation and test."""
    from threadpoolctl import threadpool_limits

    task = _task(dataset)
    kinds, fitted, reasons = KINDS[task], _fitted_to(dataset), []
    models: dict[str, Fit] = {}
    linear = f"{kinds.linear_name}{_pooled_text(dataset)}"
    if obstacle := _obstacle(dataset, fitted):
        reasons.append(f"{linear} left out because {obstacle}")
    else:
        models[linear] = kinds.linear
        if dataset.spec.kind is SampleKind.TABLE and len(fitted) * _num_trained(dataset) <= MOST_BOOSTED:
            is_counts = isinstance(dataset.spec.task, Counts)
            models[BOOSTING] = partial(_boosted_values, loss="poisson") if is_counts else kinds.boosted
        elif dataset.spec.kind is SampleKind.TABLE:
            reasons.append(f"{BOOSTING} left out because there are {_num_trained(dataset):,} classes or targets")
    found = [_measure(kinds.trivial_name, task, dataset, kinds.trivial(dataset))]
    with threadpool_limits(1), warnings.catch_warnings():  # so that they do not depend on the number of cores
        warnings.filterwarnings("ignore", message="lbfgs failed to converge")  # it is good enough to compare with
        inputs = np.concatenate(list(_prepared(dataset, fitted))) if models else None
        for name, fit in models.items():
            assert inputs is not None, "models are fitted to samples"
            found.append(_measure(name, task, dataset, _fit(fit, inputs, fitted.targets)))
    return Baselines(
        task=task,
        samples=hash_of(dataset.val),
        found=tuple(found),
        num_fitted=len(fitted) if models else 0,
        num_training=len(dataset.train),
        reason=", ".join(reasons),
    )


def measure_network(record: RunRecord, baselines: Baselines) -> Measured:
    """Return what a trained network reaches at the number of exits that is read, to compare it with baselines.

    It predicts the validation samples again only if a baseline has a lower mean loss, which may be noise.
    """
    evaluation, first = record.read_evaluation(), COMPARED[baselines.task][0]
    val, test = (split.at(evaluation.best_exits).metrics for split in (evaluation.val, evaluation.test))
    is_beaten = min(baseline.val[first] for baseline in baselines.found) < val[first]
    losses = tuple(network_losses(record).tolist()) if is_beaten else ()
    return Measured(name=NETWORK, losses=losses, val=val, test=test)


def network_losses(record: RunRecord) -> Numbers:
    """Return the loss of each validation sample as for baselines, at the number of exits that is read, (sample,)."""
    settings = record.read_config().train
    with torch_threads(settings.threads):
        method, dataset = restore(record)
        outputs = member_outputs(method, evaluation_batches(dataset.val.inputs, preparation(dataset, settings.device)))
        numbers = as_numbers(predictive_at(method, outputs, record.exits_to_read(None))).double().numpy()
    return losses_of_samples(_task(dataset), numbers, dataset.val.targets)


def _task(dataset: Dataset) -> TaskName:
    return "classification" if isinstance(dataset.spec.task, Classification) else "regression"


def _measure(name: str, task: TaskName, dataset: Dataset, predict: Predict) -> Measured:
    val, test = (
        (np.concatenate([predict(batch) for batch in _prepared(dataset, split)]), split.targets)
        for split in (dataset.val, dataset.test)
    )
    return measured(name, task, val, test)


def _fitted_to(dataset: Dataset) -> Split:
    """Return the training samples to fit to, spread over all of them where they are too many."""
    products, numbers = math.prod(_pooled(dataset)) * _num_trained(dataset), math.prod(dataset.spec.shape)
    most = min(len(dataset.train), MOST_SAMPLES, MOST_PRODUCTS // products, MOST_READ // numbers)
    chosen = np.linspace(0, len(dataset.train) - 1, most).round().astype(np.int64)
    return Split(dataset.train.inputs[chosen], dataset.train.targets[chosen])


def _obstacle(dataset: Dataset, fitted: Split) -> str:
    num_features, task = math.prod(_pooled(dataset)), dataset.spec.task
    if num_features > MOST_FEATURES or not len(fitted):
        return f"a sample has {num_features:,} numbers, more than {MOST_FEATURES:,}"
    if not isinstance(task, Classification):
        return ""
    if min(len(np.unique(labels)) for labels in fitted.targets.reshape(len(fitted), -1).T) < task.num_classes:
        return f"the {len(fitted):,} samples it would be fitted to do not have all {task.num_classes:,} classes"
    return ""


def _num_trained(dataset: Dataset) -> int:
    """Return how many models, of a class or a target each, a baseline consists of."""
    task = dataset.spec.task
    return num_targets(task) or (task.num_classes if isinstance(task, Classification) else 1)


def _fit(fit: Fit, inputs: Numbers, targets: Targets) -> Predict:
    """Fit a model, or one for each of several targets, (sample, target)."""
    if targets.ndim == 1:
        return fit(inputs, targets)
    models = [fit(inputs, column) for column in targets.T]
    return lambda samples: np.stack([model(samples) for model in models], axis=1)


def _pooled_text(dataset: Dataset) -> str:
    if dataset.spec.kind is SampleKind.TABLE:
        return ""
    _, *pooled = _pooled(dataset)
    what = "pixels" if dataset.spec.kind is SampleKind.IMAGES else "numbers a channel"
    return f" on {' × '.join(map(str, pooled))} {what}"


def _pooled(dataset: Dataset) -> tuple[int, ...]:
    """Return the shape of a sample for baselines: images and signals halve their sides until they are small."""
    shape = dataset.spec.shape
    while len(shape) > 1 and math.prod(shape) > MOST_POOLED and max(shape[1:]) > 1:
        shape = (shape[0], *(math.ceil(side / 2) for side in shape[1:]))
    return shape


def _prepared(dataset: Dataset, split: Split) -> Iterator[Numbers]:
    """Yield the samples of a split as the network sees them, pooled, (sample, feature), a batch at a time."""
    prepare, shape = Preparation(dataset.normalisation, len(dataset.spec.shape), torch.device("cpu")), _pooled(dataset)
    for batch in evaluation_batches(split.inputs, prepare):
        yield (batch if shape == dataset.spec.shape else _pool(batch, shape)).flatten(1).double().numpy()


def _pool(batch: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Average neighbours of images or signals, (batch, channel, …)."""
    return adaptive_avg_pool2d(batch, shape[1:]) if len(shape) == 3 else adaptive_avg_pool1d(batch, shape[1])


def _shares(dataset: Dataset) -> Predict:
    task = dataset.spec.task
    assert isinstance(task, Classification), "only classes have shares"

    def fit(_: Numbers, labels: Targets) -> Predict:
        counts = np.bincount(labels, minlength=task.num_classes) + 1  # a class may be missing
        return lambda samples: np.tile(np.log(counts / counts.sum()), (len(samples), 1))

    return _fit(fit, WITHOUT, dataset.train.targets)


def _mean(dataset: Dataset) -> Predict:
    def fit(_: Numbers, values: Targets) -> Predict:
        mean = values.mean(dtype=np.float64)
        return lambda samples: np.full((len(samples), 1), mean)

    return _fit(fit, WITHOUT, dataset.train.targets)


def _logistic(inputs: Numbers, targets: Targets) -> Predict:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=MOST_ITERATIONS).fit(inputs, targets)
    return lambda samples: _logs(model.predict_proba(samples))


def _ridge(inputs: Numbers, targets: Targets) -> Predict:
    from sklearn.linear_model import Ridge

    model = Ridge().fit(inputs, targets.astype(np.float64))
    return lambda samples: model.predict(samples)[:, None]


def _boosted_classes(inputs: Numbers, targets: Targets) -> Predict:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0, early_stopping=False)  # stopping needs two of a class
    model.fit(inputs, targets)
    return lambda samples: _logs(model.predict_proba(samples))


def _boosted_values(inputs: Numbers, targets: Targets, loss: str = "squared_error") -> Predict:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(loss=loss, random_state=0, early_stopping=False).fit(inputs, targets)
    return lambda samples: model.predict(samples)[:, None]


def _logs(probs: Numbers) -> Numbers:
    logs: Numbers = np.log(np.maximum(probs, np.finfo(np.float64).tiny))
    return logs


@dataclass(frozen=True)
class Kinds:
    """The baselines of a task: one that ignores the inputs, a linear one, and one for tables."""

    trivial_name: str
    trivial: Callable[[Dataset], Predict]
    linear_name: str
    linear: Fit
    boosted: Fit


KINDS: Mapping[TaskName, Kinds] = {
    "classification": Kinds("class shares", _shares, "logistic regression", _logistic, _boosted_classes),
    "regression": Kinds("the mean", _mean, "ridge regression", _ridge, _boosted_values),
}
"""To add a task, add its baselines here, and what they are compared by in `sae.analysis.baselines`."""
