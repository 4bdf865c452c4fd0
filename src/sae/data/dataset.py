"""Data sets in memory or mapped from disk: three splits of raw samples, with their normalisation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sae.config.run import Fit
from sae.core.errors import DataError
from sae.core.task import Classification, Counts, DataSpec, MultiLabel, Ordinal, Regression, Task, num_targets
from sae.data.checks import check_sizes, check_split

Array = NDArray[np.number]
"""Numbers whose type depends on the data: images are uint8 or float32, features float64, targets int64 or floats."""
Cells = NDArray[np.float64] | NDArray[np.object_]
"""The values of a column, (row,): numbers, or texts."""
Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]
Features = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
Depth = Literal[8, 16, 32]
"""Bits of a channel of an image: 8 are decoded to uint8, 16 to float32; 32 means float32 on any scale."""

STEPS_PER_DEVIATION = 100
"""Distinct floats that a standard deviation must span; with fewer, rounding destroys the spread of a column."""
DATE_FEATURES = 4
SplitName = Literal["train", "val", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "val", "test")
ALL = "all"
"""The name of the only part of a file or folder without splits."""
SPARSE_LABELS = 1000
"""Above this label, most labels must be in use, because a network has an output for each."""
MOST_COPIED = 2**25
"""Splits of a data set up to this many bytes are copies, which are faster to index than views."""


class Samples(Protocol):
    """The inputs of a split: an array in memory or mapped from disk, or some rows of one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(sample, *sample)."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the raw samples."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice | Indices, /) -> Array: ...


class Rows:
    """Some rows of an array, copied only when they are indexed.

    A split of a set that is mapped from disk stays on disk, where processes share it.
    """

    def __init__(self, array: Samples, rows: Indices) -> None:
        self.array, self.rows = array, rows

    @property
    def shape(self) -> tuple[int, ...]:
        """(row, *sample)."""
        return (len(self.rows), *self.array.shape[1:])

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the array."""
        return self.array.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: slice | Indices, /) -> Array:
        return self.array[self.rows[rows]]


class Gathered:
    """Rows of several arrays that act as one array, copied only when they are indexed."""

    def __init__(self, parts: tuple[Samples, ...], rows: Indices) -> None:
        self.parts, self.rows = parts, rows

    @property
    def shape(self) -> tuple[int, ...]:
        """(row, *sample)."""
        return (len(self.rows), *self.parts[0].shape[1:])

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the arrays."""
        return self.parts[0].dtype

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: slice | Indices, /) -> Array:
        chosen = self.rows[rows]
        gathered: Array = np.empty((len(chosen), *self.shape[1:]), self.dtype)
        start = 0
        for part in self.parts:
            here = (chosen >= start) & (chosen < start + len(part))
            gathered[here] = part[chosen[here] - start]
            start += len(part)
        return gathered


@dataclass(frozen=True)
class Split:
    """Raw samples and their targets, in the units of the data.

    Attributes:
        inputs: (sample, channel, height, width) in uint8 or float32, or (sample, feature) in float64.
        targets: (sample,), int64 labels or float values.
        blocks: (sample,), numbers of groups, or times: samples of the same number stay together. None if there are
            neither.
    """

    inputs: Samples
    targets: Array
    blocks: Features | None = None

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class Normalisation:
    """(x − mean) / std per channel or feature, in the units of the raw samples.

    Attributes:
        mean: Subtracted from each value.
        std: Divisor of the difference.
        each_image: Whether each image is then standardised by its own mean and deviation; left out of files if not.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    each_image: Annotated[bool, Field(exclude_if=lambda each: not each)] = False


@dataclass(frozen=True)
class ColumnEncoding:
    """The encoding of a table's column as features; learnt from training rows and exported with a model.

    Attributes:
        name: Name of the column.
        median: Value for a missing number or date; None for a text column.
        categories: Texts that have a feature each; empty for a numeric column.
        marks_missing: Whether a last feature marks missing values.
        is_date: Whether the numbers are days since 1970, which become year, month, day of the week and the days.
        missing: Texts among numbers that stand for a missing value, besides the usual ones.
        has_others: Whether training saw more texts, too rare for a feature each.
    """

    name: str
    median: float | None = None
    categories: tuple[str, ...] = ()
    marks_missing: bool = False
    is_date: bool = False
    missing: tuple[str, ...] = ()
    has_others: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether the column holds numbers or dates."""
        return self.median is not None

    @property
    def num_features(self) -> int:
        """Number of features the column becomes."""
        values = DATE_FEATURES if self.is_date else 1 if self.is_numeric else len(self.categories)
        return values + self.marks_missing

    def features(self, values: Cells, missing: Mask) -> Iterator[Features]:
        """Yield the features, (row,) each: the number itself, or 1 for the matching category.

        A text that is not in `categories` is 0 in all of them.

        Example:
            >>> encoding = ColumnEncoding("colour", categories=("blue", "red"))
            >>> [feature.tolist() for feature in encoding.features(np.array(["red", "new"]), np.zeros(2, bool))]
            [[0.0, 0.0], [1.0, 0.0]]
        """
        if self.median is not None:
            filled = np.where(missing, self.median, values).astype(np.float64, copy=False)
            yield from _date_features(filled) if self.is_date else [filled]
        for category in self.categories:
            yield (values == category).astype(np.float64)
        if self.marks_missing:
            yield missing.astype(np.float64)


def _date_features(days: Features) -> Iterator[Features]:
    """Yield year, month, day of the week from Monday as 0, and the days themselves, (row,) each."""
    dates = np.floor(days).astype("datetime64[D]")
    months = dates.astype("datetime64[M]").astype(np.int64)
    yield (months // 12 + 1970).astype(np.float64)
    yield (months % 12 + 1).astype(np.float64)
    yield ((dates.astype(np.int64) + 3) % 7).astype(np.float64)  # 1970 began on a Thursday
    yield days


@dataclass(frozen=True)
class Known:
    """Facts that an earlier reading learnt from training samples, so that a later one need not learn them again.

    Attributes:
        columns: Encodings of the columns of a table.
        class_names: Names of the classes in the order of their labels.
    """

    columns: tuple[ColumnEncoding, ...] | None = None
    class_names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Dataset:
    """A checked data set.

    Attributes:
        spec: Shape of a prepared sample, and the task.
        normalisation: Applied to every sample, after augmentation.
        class_names: Names of the classes in the order of their labels, if they have names.
        frame: Width in pixels of the black frame that reading added to images; new images need it too.
        depth: Bits of a channel of an image.
        fit: How images of other sizes were resized; None if they had one size.
        label_scale: Divisor that reading applied to real-valued labels.
        columns: Encodings of the columns of a table.
        is_other: Whether these are not the samples of the run that asked for them.
        target_names: Names of the targets, if there are several.
    """

    name: str
    spec: DataSpec
    normalisation: Normalisation
    train: Split
    val: Split
    test: Split
    class_names: tuple[str, ...] | None = None
    frame: int = 0
    depth: Depth = 8
    fit: Fit | None = None
    label_scale: float = 1.0
    columns: tuple[ColumnEncoding, ...] | None = None
    is_other: bool = False
    target_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if 0 in self.spec.shape:
            raise DataError(f"samples must hold numbers, got samples of shape {self.spec.shape} in {self.name}")
        for name in SPLITS:
            check_split(self.split(name), self.spec, f"the {name} split of {self.name}")
        check_sizes(self)

    def split(self, name: str) -> Split:
        """Return the split of this name: train, val or test."""
        split: Split = getattr(self, name)
        return split


def class_titles(dataset: Dataset) -> tuple[str, ...]:
    """Return the names of the classes, or their numbers if they have none; empty for regression."""
    task = dataset.spec.task
    if not isinstance(task, Classification):
        return ()
    return dataset.class_names or tuple(str(label) for label in range(task.num_classes))


def target_titles(dataset: Dataset) -> tuple[str, ...]:
    """Return the names of several targets, or their numbers from 1 if they have none; empty for a single one."""
    count = num_targets(dataset.spec.task) or 0
    return dataset.target_names or tuple(str(number + 1) for number in range(count))


def standardisation(inputs: Features, training: Indices) -> Normalisation:
    """Return the mean and standard deviation of each feature; a constant feature is only centred.

    Args:
        inputs: (sample, feature) in float64.
        training: Indices of the training samples.
    """
    moments = [_moments(feature[training]) for feature in inputs.T]
    return Normalisation(tuple(mean for mean, _ in moments), tuple(std for _, std in moments))


def _moments(values: Features) -> tuple[float, float]:
    """Return the mean and the standard deviation, or the value and 1 if all are the same."""
    if values.min() == values.max():
        return float(values[0]), 1.0  # rounding would make the deviation of equal numbers larger than 0
    with np.errstate(over="ignore", invalid="ignore"):  # numbers beyond 1e150, which the data set then refuses
        return float(values.mean()), float(values.std())


def is_resolved(mean: float, std: float, dtype: type[np.floating]) -> bool:
    """Return whether numbers of this type distinguish values within a standard deviation of their mean.

    Example:
        >>> is_resolved(1.7e9, 100.0, np.float32), is_resolved(1.7e9, 100.0, np.float64)
        (False, True)
    """
    return bool(np.finfo(dtype).eps * abs(mean) * STEPS_PER_DEVIATION <= std)


def signal_normalisation(signals: Array) -> Normalisation:
    """Return the mean and standard deviation of each channel over samples and time, in float64.

    A constant channel is only centred.

    Args:
        signals: (sample, channel, length).
    """
    values = signals.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # as for a table
        mean, std = values.mean(axis=(0, 2)), values.std(axis=(0, 2))
    is_constant = values.min(axis=(0, 2)) == values.max(axis=(0, 2))
    return Normalisation(tuple(mean.tolist()), tuple(np.where(is_constant, 1.0, std).tolist()))


def standardised_regression(targets: Array, where: str) -> Regression:
    """Return a regression task standardised on these training targets."""
    Regression().check_targets(targets, where)
    values = targets.astype(np.float64)
    moments = []
    for target in values.reshape(len(values), -1).T:
        if target.min() == target.max():
            raise DataError(f"targets must vary, but all {len(target)} are {target[:1].tolist()} in {where}")
        moments.append(_moments(target))
    means, stds = zip(*moments, strict=True)
    return Regression(*moments[0]) if targets.ndim == 1 else Regression(means, stds)


def task_of(name: str | None, targets: Array, class_names: Sequence[str] | None, where: str) -> Task:
    """Return the task that the targets of the training samples define.

    Args:
        name: The task of a run's settings.
        targets: (sample,), or (sample, target) of several.
        class_names: Names of the classes, if they have names.
        where: The place of the targets, for messages.
    """
    if name == "classification" and targets.ndim == 2:
        return MultiLabel(num_labels=targets.shape[1])
    if name in ("classification", "ordinal"):
        number = len(class_names) if class_names is not None else count_classes(targets, where)
        return (Ordinal if name == "ordinal" else Classification)(number)
    if name != "counts":
        return standardised_regression(targets, where)
    Counts().check_targets(targets, where)
    return Counts(std=standardised_regression(targets, where).mean)


def count_classes(labels: Array, where: str) -> int:
    """Return the number of classes that training labels define."""
    present = np.unique(labels)
    if len(present) < 2:
        raise DataError(f"there must be at least 2 classes, got {present.tolist()} in {where}")
    if is_sparse(present):
        raise DataError(
            f"labels must be 0, 1, 2, … without large gaps, got {present[-1]} and only {len(present)} different ones "
            f"in {where}: correct a stray label, or number the classes from 0"
        )
    return int(present[-1]) + 1


def is_sparse(present: Array) -> bool:
    """Return whether most numbers up to the largest label are no label."""
    return bool(present[-1] >= SPARSE_LABELS + 10 * len(present))


def are_labels(targets: Array) -> bool:
    """Return whether targets are classes, (sample,), of which one is right."""
    return bool(np.issubdtype(targets.dtype, np.integer)) and targets.ndim == 1


def some_rows(inputs: Array, targets: Array, rows: Indices | None) -> Split:
    """Return some samples of a part of a file, or all of them."""
    return Split(inputs, targets) if rows is None else Split(rows_of(inputs, rows), targets[rows])


def split_up(
    name: str,
    inputs: Array,
    targets: Array,
    task: Task,
    normalisation: Normalisation,
    parts: tuple[Indices, Indices, Indices],
    class_names: tuple[str, ...] | None = None,
    columns: tuple[ColumnEncoding, ...] | None = None,
    blocks: Features | None = None,
) -> Dataset:
    """Make a data set from one array of samples and the indices of its three splits."""
    train, val, test = (
        Split(rows_of(inputs, part), targets[part], None if blocks is None else blocks[part]) for part in parts
    )
    spec = DataSpec(inputs.shape[1:], task)
    return Dataset(name, spec, normalisation, train, val, test, class_names, columns=columns)


def rows_of(array: Array, part: Indices) -> Array | Rows:
    """Return some rows of an array: a copy, or a view if the array is mapped from disk or large."""
    is_mapped = not array.flags.writeable
    return Rows(array, part) if is_mapped or array.nbytes > MOST_COPIED else np.ascontiguousarray(array[part])
