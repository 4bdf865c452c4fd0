"""Splits of a table that keep groups together, or the future out of the training rows."""

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import DataError
from sae.data.dataset import Features, Indices

TRAINING_SHARE, SEEN_SHARE = 0.6, 0.8
"""Shares of the rows in train, and in train and val together; the rest is test."""

Parts = tuple[Indices, Indices, Indices]


def split_groups(groups: NDArray[np.object_] | Features, split_seed: int, where: str) -> Parts:
    """Split rows into about 60 % train, 20 % val and 20 % test, with every group in one of them.

    Groups are dealt in random order, each to the split that lacks the largest share of its rows.

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
    wanted = np.array([TRAINING_SHARE, SEEN_SHARE - TRAINING_SHARE, 1 - SEEN_SHARE]) * len(groups)
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
    """Split rows by time: the earliest 60 % are train, the next 20 % val, the latest 20 % test.

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
    ordered = np.sort(times)
    last = [ordered[max(0, int(np.ceil(share * len(times))) - 1)] for share in (TRAINING_SHARE, SEEN_SHARE)]
    train = np.flatnonzero(times <= last[0])
    val = np.flatnonzero((times > last[0]) & (times <= last[1]))
    test = np.flatnonzero(times > last[1])
    if not len(val) or not len(test):
        raise DataError(
            f"times must differ enough to split by, but {len(train)} of {len(times)} rows are not later than "
            f"the 60 % that are train in {where}"
        )
    return train, val, test
