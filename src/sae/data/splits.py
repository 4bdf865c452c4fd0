"""Splits at random, by group and in time, and random choices of rows that keep the shares of the classes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sae.config.run import ValToo
from sae.core.errors import ConfigError, DataError
from sae.data.dataset import (
    ALL,
    MOST_COPIED,
    SPLITS,
    Array,
    Dataset,
    Features,
    Gathered,
    Indices,
    Rows,
    Samples,
    Split,
    are_labels,
    class_titles,
)
from sae.data.defaults import SMALLEST_SHARE, training_share
from sae.data.halving import split_in_two

Parts = tuple[Indices, Indices, Indices]
VALIDATION_SHARE = 0.1
"""Share of the training samples held out if a data set has a test split but no validation split."""


def split_indices(
    num_samples: int,
    split_seed: int,
    labels: Array | None = None,
    class_names: Sequence[str] | None = None,
    path: Path | None = None,
    share: float = SMALLEST_SHARE,
) -> tuple[Indices, Indices, Indices]:
    """Split samples at random into train, val and test, with equal shares of each class.

    Args:
        num_samples: Number of samples.
        split_seed: Seed of the random choice.
        labels: Classes of the samples, (sample,); None for regression.
        class_names: Names of the classes, for messages.
        path: The file or folder, for messages.
        share: Share of train; the rest is halved.
    """
    try:
        train, rest = split_in_two(num_samples, 1 - share, split_seed, labels)
        val, test = split_in_two(len(rest), 0.5, split_seed, None if labels is None else labels[rest])
    except ValueError:
        where = f" in {path}" if path else ""
        if labels is None:
            raise DataError(
                f"data must hold at least 5 samples to be split into train, val and test, got {num_samples}{where}"
            ) from None
        found, counts = np.unique(labels, return_counts=True)
        fewest = int(found[counts.argmin()])
        raise DataError(
            f"data must hold at least 5 samples of each class to be split into train, val and test, got {counts.min()} "
            f"of class {class_names[fewest] if class_names else fewest!r}{where}: add samples, or remove this class"
        ) from None
    return train, rest[val], rest[test]


def hold_out_validation(targets: Array, seed: int, share: float = VALIDATION_SHARE) -> tuple[Indices, Indices]:
    """Return the indices for training and for validation, with the same share of each class in both.

    Args:
        targets: (sample,); integers are class labels.
        seed: Seed of the random choice.
        share: Share of the samples for validation.
    """
    generator = np.random.default_rng(seed)
    is_labels = are_labels(targets)
    groups = (
        [np.flatnonzero(targets == label) for label in np.unique(targets)] if is_labels else [np.arange(len(targets))]
    )
    held_out = [generator.permutation(group)[: round(share * len(group))] for group in groups]
    val = np.sort(np.concatenate(held_out)) if groups else np.arange(0)
    return np.setdiff1d(np.arange(len(targets)), val), val


def split_parts(
    targets: Mapping[str, Array], split_seed: int, class_names: Sequence[str] | None, path: Path
) -> dict[str, tuple[str, Indices | None]]:
    """Return the source of train, val and test: a part of the file, and the rows there; None for all rows.

    Args:
        targets: Targets of train, test and perhaps val, or of `ALL`. Integers are labels, whose shares are kept.
        split_seed: Seed of the random choices.
        class_names: Names of the classes, for messages.
        path: The file or folder, for messages.
    """
    if ALL in targets:
        labels = targets[ALL] if are_labels(targets[ALL]) else None
        number = len(targets[ALL])
        chosen = split_indices(number, split_seed, labels, class_names, path, training_share(number))
        return {name: (ALL, rows) for name, rows in zip(SPLITS, chosen, strict=True)}
    if "val" in targets:
        return {name: (name, None) for name in SPLITS}
    kept, held_out = hold_out_validation(targets["train"], split_seed)
    return {"train": ("train", kept), "val": ("train", held_out), "test": ("test", None)}


def split_groups(groups: NDArray[np.object_] | Features, split_seed: int, where: str) -> Parts:
    """Split rows into train, val and test of about the usual shares, with every group in one of them.

    Groups are dealt in random order, each to the split that is furthest from its size.

    Args:
        groups: The group of each row, (row,).
        split_seed: Seed of the order.
        where: The column, for messages.

    Example:
        >>> train, val, test = split_groups(np.array([1.0, 1.0, 2.0, 2.0, 3.0, 3.0]), 0, "column")
        >>> sorted(len(part) for part in (train, val, test))
        [2, 2, 2]
    """
    names, group_of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(names) < 3:
        raise DataError(
            f"there must be at least 3 groups to split into train, val and test, got {len(names)} in {where}"
        )
    share = training_share(len(groups))
    wanted = np.array([share, (1 - share) / 2, (1 - share) / 2]) * len(groups)
    given, split_of = np.zeros(3), np.empty(len(names), np.int64)
    order = np.random.default_rng(split_seed).permutation(len(names))
    for number, group in enumerate(order):
        empty = np.flatnonzero(given == 0)
        is_last_chance = len(order) - number <= len(empty)
        chosen = empty[0] if is_last_chance else np.argmax((wanted - given) / wanted)
        split_of[group] = chosen
        given[chosen] += sizes[group]
    train, val, test = (np.flatnonzero(split_of[group_of] == split) for split in range(3))
    return train, val, test


def split_in_time(times: Features, where: str) -> Parts:
    """Split rows by time: the earliest are train, the next val, the latest test, by the usual shares.

    Rows of the same time stay together.

    Args:
        times: Numbers or days, (row,).
        where: The column, for messages.

    Example:
        >>> [part.tolist() for part in split_in_time(np.array([5.0, 1.0, 2.0, 3.0, 4.0]), "column")]
        [[1, 2, 3], [4], [0]]
    """
    if len(np.unique(times)) < 3:
        raise DataError(f"there must be at least 3 different times to split by, got {len(np.unique(times))} in {where}")
    ordered, share = np.sort(times), training_share(len(times))
    last = [ordered[max(0, int(np.ceil(part * len(times))) - 1)] for part in (share, (1 + share) / 2)]
    train = np.flatnonzero(times <= last[0])
    val = np.flatnonzero((times > last[0]) & (times <= last[1]))
    test = np.flatnonzero(times > last[1])
    if not len(val) or not len(test):
        raise DataError(
            f"times must differ enough to split by, but {len(train)} of {len(times)} rows are not later than "
            f"the {share:.0%} that are train in {where}"
        )
    return train, val, test


def choose_rows(targets: Array, number: int, seed: int) -> Indices:
    """Return this many rows, sorted; each class keeps its share.

    Each class gives the first rows of its own random order, so that a smaller choice with the same seed is part of
    a larger one, except for single rows that rounding adds.

    Args:
        targets: (row,); integers are class labels.
        number: Rows to choose, at most all.
        seed: Seed of the random choice.

    Example:
        >>> labels = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1])
        >>> np.bincount(labels[choose_rows(labels, 3, seed=0)]).tolist()
        [2, 1]
    """
    generator = np.random.default_rng(seed)
    is_labels = are_labels(targets)
    groups = (
        [np.flatnonzero(targets == label) for label in np.unique(targets)] if is_labels else [np.arange(len(targets))]
    )
    exact = np.array([number * len(group) / len(targets) for group in groups])
    counts = np.floor(exact).astype(np.int64)
    largest_rests = np.argsort(counts - exact, kind="stable")[: number - counts.sum()]
    counts[largest_rests] += 1
    chosen = [generator.permutation(group)[:count] for group, count in zip(groups, counts, strict=True)]
    return np.sort(np.concatenate(chosen))


def halves(split: Split, seed: int) -> tuple[Indices, Indices]:
    """Return the rows of two halves.

    Each class is in both with its share. Blocks, such as groups, are in one of them; the first half has the first ones.

    Example:
        >>> split = Split(np.zeros((6, 1)), np.zeros(6), blocks=np.array([2.0, 1.0, 2.0, 1.0, 3.0, 3.0]))
        >>> [rows.tolist() for rows in halves(split, seed=0)]
        [[1, 3], [0, 2, 4, 5]]
    """
    if split.blocks is None:
        first = choose_rows(split.targets, len(split) // 2, seed)
    else:
        _, block_of, sizes = np.unique(split.blocks, return_inverse=True, return_counts=True)
        until = np.cumsum(sizes)[:-1]
        if not len(until):
            raise DataError(
                "validation samples must be of several groups or times to be halved, but they are all of one: "
                "leave out --refit"
            )
        first = np.flatnonzero(block_of <= np.abs(until - len(split) / 2).argmin())
    return first, np.setdiff1d(np.arange(len(split)), first)


def trained_on(dataset: Dataset, val_too: ValToo, split_seed: int) -> Dataset:
    """Return the data set with validation samples among those for training, as `train.val_too` says.

    Encodings, normalisation and standardisation stay those of the training samples.
    """
    if val_too == "none":
        return dataset
    if val_too == "all":
        return replace(dataset, train=join([dataset.train, dataset.val]))
    first, second = (some_of(dataset.val, rows) for rows in halves(dataset.val, split_seed))
    more, val = (first, second) if val_too == "first" else (second, first)
    return replace(dataset, train=join([dataset.train, more]), val=val)


def some_of(split: Split, rows: Indices) -> Split:
    """Return some samples of a split; large ones are copied only when they are indexed."""
    blocks = None if split.blocks is None else split.blocks[rows]
    return Split(copied_if_small(Rows(split.inputs, rows)), split.targets[rows], blocks)


def join(splits: Sequence[Split]) -> Split:
    """Return the samples of several splits as one; large ones are copied only when they are indexed."""
    targets = np.concatenate([split.targets for split in splits])
    return Split(copied_if_small(Gathered(tuple(split.inputs for split in splits), np.arange(len(targets)))), targets)


def copied_if_small(inputs: Samples) -> Samples:
    """Return samples as an array, which is faster to index, unless they are large."""
    is_small = math.prod(inputs.shape) * inputs.dtype.itemsize <= MOST_COPIED
    return inputs[:] if is_small else inputs


def limit_training(dataset: Dataset, number: int | None, split_seed: int) -> Dataset:
    """Return the data set with only this many training samples; classes keep their shares. None keeps all samples."""
    if number is None:
        return dataset
    train = dataset.train
    if number > len(train):
        raise ConfigError(
            f"data.train_size must be at most {len(train):,}, the training samples of {dataset.name}, got {number:,}"
        )
    rows = choose_rows(train.targets, number, split_seed)
    titles, missing = class_titles(dataset), np.setdiff1d(train.targets, train.targets[rows])
    if titles and len(missing):
        raise ConfigError(
            f"data.train_size must leave a sample of each class of {dataset.name}, got {number:,}: "
            f"class {titles[missing[0]]} would have none"
        )
    return replace(dataset, train=some_of(train, rows))
