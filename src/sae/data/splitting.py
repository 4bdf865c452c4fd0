"""Splits made by us, where a data set does not bring its own."""

import numpy as np

from sae.core.errors import DataError
from sae.core.task import DataSpec, Task
from sae.data.column_encoding import ColumnEncoding
from sae.data.dataset import Array, Dataset, Normalisation, Rows, Split

VALIDATION_SHARE = 0.1
"""Of the training samples, where a data set brings a test split but none for validation."""


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
