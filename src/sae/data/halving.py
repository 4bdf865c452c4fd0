"""Random splits of samples in two, sample by sample the same as scikit-learn's `train_test_split`.

Importing scikit-learn takes nearly as long as importing torch, and many runs would need it for the split alone. Earlier
versions used scikit-learn, so the splits must be the same; a test compares them.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Indices = NDArray[np.int64]


def split_in_two(num_samples: int, share: float, seed: int, labels: Array | None = None) -> tuple[Indices, Indices]:
    """Return the indices of the first part and of the second, each in random order.

    Args:
        num_samples: Number of samples.
        share: Share of the second part, rounded up to whole samples.
        seed: Seed of the random choice.
        labels: Classes of the samples, (sample,), whose shares are kept; None to ignore classes.

    Raises:
        ValueError: If a part would be empty or, with labels, too small to hold every class.

    Example:
        >>> [part.tolist() for part in split_in_two(5, 0.4, seed=0)]
        [[1, 3, 4], [2, 0]]
    """
    num_second = math.ceil(share * num_samples)
    num_first = num_samples - num_second
    if min(num_first, num_second) < 1:
        raise ValueError(f"both parts must hold a sample, got {num_first} and {num_second}")
    # The old generator of numpy, whose numbers never change.
    generator = np.random.RandomState(seed)
    if labels is None:
        order = generator.permutation(num_samples)
        return order[num_second:], order[:num_second]
    _, classes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if counts.min() < 2 or min(num_first, num_second) < len(counts):
        raise ValueError(f"both parts must hold every class, got {counts.min()} samples of one")
    in_first = _deal(counts, num_first, generator)
    in_second = _deal(counts - in_first, num_second, generator)
    first: list[Indices] = []
    second: list[Indices] = []
    for members, one, other in zip(
        np.split(np.argsort(classes, kind="stable"), np.cumsum(counts)[:-1]), in_first, in_second, strict=True
    ):
        order = members[generator.permutation(len(members))]
        first.append(order[:one])
        second.append(order[one : one + other])
    return generator.permutation(np.concatenate(first)), generator.permutation(np.concatenate(second))


def _deal(counts: Indices, number: int, generator: np.random.RandomState) -> Indices:
    """Return how many samples of each class go into a part of this size, as close to their shares as possible.

    Shares are rounded down; the remaining samples go to the classes that lost most, at random among equals.
    """
    exact = counts / counts.sum() * number
    dealt: NDArray[np.float64] = np.floor(exact)
    lost = exact - dealt
    left = int(number - dealt.sum())
    for size in np.unique(lost)[::-1]:
        if left <= 0:
            break
        alike = np.flatnonzero(lost == size)
        lucky = generator.choice(alike, size=min(len(alike), left), replace=False)
        dealt[lucky] += 1
        left -= len(lucky)
    return dealt.astype(np.int64)
