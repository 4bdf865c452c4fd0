"""A data set in memory: three splits of raw samples, and how a sample is prepared for a network."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.errors import DataError
from sae.task import DataSpec, Task

Array = NDArray[Any]


@dataclass(frozen=True)
class Split:
    """Samples as they come, and their targets in the units of the data.

    Attributes:
        inputs: (sample, channel, height, width) in uint8, or (sample, feature) in float32.
        targets: (sample,), int64 labels or float32 values.
    """

    inputs: Array
    targets: Array

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class Normalisation:
    """(x − mean) / std, per channel or feature, in the units of the raw samples."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class Dataset:
    """A checked data set.

    Attributes:
        spec: Shape of a prepared sample, and the task.
        normalisation: Applied to every sample, after augmentation.
    """

    name: str
    spec: DataSpec
    normalisation: Normalisation
    train: Split
    val: Split
    test: Split

    def __post_init__(self) -> None:
        for name in ("train", "val", "test"):
            check_split(self.split(name), self.spec, f"the {name} split of {self.name}")

    def split(self, name: str) -> Split:
        """One of train, val and test."""
        split: Split = getattr(self, name)
        return split


def check_split(split: Split, spec: DataSpec, where: str) -> None:
    """Refuse samples that no network should be trained on, saying which."""
    if not len(split):
        raise DataError(f"every split must hold samples, however {where} is empty")
    if len(split.inputs) != len(split.targets):
        raise DataError(f"{where} must have one target for each sample, got {len(split.inputs)} and {len(split)}")
    if split.inputs.shape[1:] != spec.shape:
        raise DataError(f"samples must have shape {spec.shape}, got {split.inputs.shape[1:]} in {where}")
    if np.issubdtype(split.inputs.dtype, np.floating):
        _check_finite(split.inputs, where)
    spec.task.check_targets(split.targets, where)


def standardisation(inputs: Array) -> Normalisation:
    """Mean and standard deviation of each feature; a constant feature is only centred."""
    mean, std = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
    return Normalisation(tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))


def split_indices(num_samples: int, split_seed: int, labels: Array | None = None) -> tuple[Array, Array, Array]:
    """A seeded split into 60 % train, 20 % val and 20 % test, in equal shares of each class."""
    from sklearn.model_selection import train_test_split

    everything = np.arange(num_samples)
    train, rest = train_test_split(everything, test_size=0.4, random_state=split_seed, stratify=labels)
    val, test = train_test_split(
        rest, test_size=0.5, random_state=split_seed, stratify=None if labels is None else labels[rest]
    )
    return train, val, test


def split_up(
    name: str,
    inputs: Array,
    targets: Array,
    task: Task,
    normalisation: Normalisation,
    parts: tuple[Array, ...],
) -> Dataset:
    """A data set from one array of samples and the indices of its three splits."""
    splits = (Split(np.ascontiguousarray(inputs[part]), targets[part]) for part in parts)
    return Dataset(name, DataSpec(inputs.shape[1:], task), normalisation, *splits)


def _check_finite(inputs: Array, where: str) -> None:
    wrong = np.argwhere(~np.isfinite(inputs))
    if len(wrong):
        sample, *position = wrong[0].tolist()
        raise DataError(
            f"inputs must be finite, got {inputs[tuple(wrong[0])]} in sample {sample} at {position} of {where}: "
            f"remove or impute such values"
        )
