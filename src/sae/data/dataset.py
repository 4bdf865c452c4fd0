"""A data set: three splits of raw samples, and how a sample is prepared for a network."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import DataError
from sae.core.task import DataSpec, Regression
from sae.data.column_encoding import ColumnEncoding

Array = NDArray[Any]


class Samples(Protocol):
    """What a split holds: an array, in memory or mapped from disk, or some rows of one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(sample, *sample)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a raw sample."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Array: ...


class Rows:
    """Some rows of an array, copied only when they are asked for.

    A split of a set that is mapped from disk stays on disk, where processes share it.
    """

    def __init__(self, array: Array, rows: Array) -> None:
        self.array, self.rows = array, rows

    @property
    def shape(self) -> tuple[int, ...]:
        """(row, *sample)."""
        return (len(self.rows), *self.array.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the array."""
        return self.array.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any, /) -> Array:
        chosen: Array = self.array[self.rows[rows]]
        return chosen


@dataclass(frozen=True)
class Split:
    """Samples as they come, and their targets in the units of the data.

    Attributes:
        inputs: (sample, channel, height, width) in uint8, or (sample, feature) in float32.
        targets: (sample,), int64 labels or float32 values.
    """

    inputs: Samples
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
        class_names: What the classes are called, in the order of their labels, if they have names.
        frame: Black pixels on each side that reading added to images, and that new ones need too.
        label_scale: What reading divided real-valued labels by.
        columns: How the columns of a table became features, if it is one.
    """

    name: str
    spec: DataSpec
    normalisation: Normalisation
    train: Split
    val: Split
    test: Split
    class_names: tuple[str, ...] | None = None
    frame: int = 0
    label_scale: float = 1.0
    columns: tuple[ColumnEncoding, ...] | None = None

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
        _check_finite(split.inputs[:], where)
    spec.task.check_targets(split.targets, where)


def standardisation(inputs: Array) -> Normalisation:
    """Mean and standard deviation of each feature; a constant feature is only centred."""
    mean, std = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
    return Normalisation(tuple(mean.tolist()), tuple(np.where(std > 0, std, 1.0).tolist()))


def standardised_regression(targets: Array, where: str) -> Regression:
    """The task of predicting values that a network learns standardised on its training targets."""
    Regression().check_targets(targets, where)
    values = targets.astype(np.float64)
    if not values.std() > 0:
        raise DataError(f"targets must vary, however all {len(values)} are {values[:1].tolist()} in {where}")
    return Regression(float(values.mean()), float(values.std()))


def _check_finite(inputs: Array, where: str) -> None:
    wrong = np.argwhere(~np.isfinite(inputs))
    if len(wrong):
        sample, *position = wrong[0].tolist()
        raise DataError(
            f"inputs must be finite, got {inputs[tuple(wrong[0])]} in sample {sample} at {position} of {where}: "
            f"remove or impute such values"
        )
