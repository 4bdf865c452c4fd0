"""Weights of rare and frequent classes in the training loss."""

from dataclasses import replace

import numpy as np

from sae.config.run import TrainConfig
from sae.core.errors import ConfigError
from sae.core.task import Classification, DataSpec, WeightedClassification
from sae.data.dataset import Array, Dataset


def training_spec(dataset: Dataset, config: TrainConfig) -> DataSpec:
    """Return the spec to train a method with: that of the data, with class weights if they are asked for."""
    spec = dataset.spec
    if config.class_weights == "none":
        return spec
    if type(spec.task) is not Classification:
        raise ConfigError(
            f"train.class_weights must be none for regression, got {config.class_weights}, and for classes in an order "
            f"or several labels: {dataset.name} has other targets"
        )
    weights = balanced_weights(dataset.train.targets, spec.task.num_classes)
    return replace(spec, task=WeightedClassification(spec.task.num_classes, weights))


def balanced_weights(labels: Array, num_classes: int) -> tuple[float, ...]:
    """Return weights that give every class the same total, and a sample 1 on average.

    A class without samples gets weight 1, which nothing uses.

    Example:
        >>> balanced_weights(np.array([0, 0, 0, 1]), 2)
        (0.6666666666666666, 2.0)
    """
    counts = np.bincount(labels, minlength=num_classes)
    present = int(np.count_nonzero(counts))
    return tuple(len(labels) / (present * int(count)) if count else 1.0 for count in counts)
