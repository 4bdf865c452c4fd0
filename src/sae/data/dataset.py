"""A data set: three splits of raw samples, and how a sample is prepared for a network."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import DataError
from sae.core.task import Classification, DataSpec, Regression, Task

Array = NDArray[Any]
VALIDATION_SHARE = 0.1
"""Of the training samples, where a data set brings a test split but none for validation."""


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
class ColumnEncoding:
    """One column.

    Attributes:
        name: Of the column.
        median: What stands for a missing number; None for a column of texts.
        categories: The texts that have a feature each; empty for a column of numbers.
        marks_missing: Whether a last feature says where a value is missing.
    """

    name: str
    median: float | None = None
    categories: tuple[str, ...] = ()
    marks_missing: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.median is not None

    @property
    def num_features(self) -> int:
        """Features that it becomes."""
        return (1 if self.is_numeric else len(self.categories)) + self.marks_missing

    def features(self, values: NDArray[Any], missing: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Its features, (row,) each: the number, or 1 at the text it is; another text is none of them.

        Example:
            >>> encoding = ColumnEncoding("colour", categories=("blue", "red"))
            >>> [feature.tolist() for feature in encoding.features(np.array(["red", "new"]), np.zeros(2, bool))]
            [[0.0, 0.0], [1.0, 0.0]]
        """
        if self.median is not None:
            yield np.where(missing, self.median, values)
        for category in self.categories:
            yield (values == category).astype(np.float64)
        if self.marks_missing:
            yield missing.astype(np.float64)


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


def class_titles(dataset: Dataset) -> tuple[str, ...]:
    """Names of the classes, or their numbers; none for regression."""
    task = dataset.spec.task
    if not isinstance(task, Classification):
        return ()
    return dataset.class_names or tuple(str(label) for label in range(task.num_classes))


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


def split_indices(num_samples: int, split_seed: int, labels: Array | None = None) -> tuple[Array, Array, Array]:
    """A seeded split into 60 % train, 20 % val and 20 % test, in equal shares of each class."""
    from sklearn.model_selection import train_test_split

    everything = np.arange(num_samples)
    try:
        train, rest = train_test_split(everything, test_size=0.4, random_state=split_seed, stratify=labels)
        val, test = train_test_split(
            rest, test_size=0.5, random_state=split_seed, stratify=None if labels is None else labels[rest]
        )
    except ValueError:
        fewest = num_samples if labels is None else np.unique(labels, return_counts=True)[1].min()
        raise DataError(
            f"data must hold at least 5 samples of each class to be split into train, val and test, got {fewest}"
        ) from None
    return train, val, test


def hold_out_validation(targets: Array, seed: int) -> tuple[Array, Array]:
    """Indices that stay in training and those held out for validation, the same share of each class.

    Args:
        targets: (sample,); integers are taken as classes.
        seed: What the choice depends on.
    """
    generator = np.random.default_rng(seed)
    is_labels = np.issubdtype(targets.dtype, np.integer)
    groups = (
        [np.flatnonzero(targets == label) for label in np.unique(targets)] if is_labels else [np.arange(len(targets))]
    )
    held_out = [generator.permutation(group)[: round(VALIDATION_SHARE * len(group))] for group in groups]
    val = np.sort(np.concatenate(held_out)) if groups else np.arange(0)
    return np.setdiff1d(np.arange(len(targets)), val), val


def split_up(
    name: str,
    inputs: Array,
    targets: Array,
    task: Task,
    normalisation: Normalisation,
    parts: tuple[Array, ...],
    class_names: tuple[str, ...] | None = None,
    columns: tuple[ColumnEncoding, ...] | None = None,
) -> Dataset:
    """A data set from one array of samples and the indices of its three splits."""
    train, val, test = (Split(rows_of(inputs, part), targets[part]) for part in parts)
    spec = DataSpec(inputs.shape[1:], task)
    return Dataset(name, spec, normalisation, train, val, test, class_names, columns=columns)


def rows_of(array: Array, part: Array) -> Array | Rows:
    """Some rows of an array: a copy if it is in memory, a view if it is mapped from disk."""
    is_mapped = not array.flags.writeable
    return Rows(array, part) if is_mapped else np.ascontiguousarray(array[part])


def _check_finite(inputs: Array, where: str) -> None:
    wrong = np.argwhere(~np.isfinite(inputs))
    if len(wrong):
        sample, *position = wrong[0].tolist()
        raise DataError(
            f"inputs must be finite, got {inputs[tuple(wrong[0])]} in sample {sample} at {position} of {where}: "
            f"remove or impute such values"
        )
