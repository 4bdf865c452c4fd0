"""Mean and standard deviation of numbers of which some may be of no use."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """What several runs say of one number.

    Attributes:
        mean: Over the finite ones.
        std: Their standard deviation, of a sample (divided by one less than there are); one number has none.
        left_out: How many were not finite and are not in it.
    """

    mean: float
    std: float | None
    left_out: int = 0

    def describe(self) -> dict[str, float | None]:
        """As JSON."""
        return {"mean": self.mean, "std": self.std}


def spread_of(values: Iterable[float]) -> Spread | None:
    """The spread of the finite ones among some numbers; None if there is none.

    Example:
        >>> spread_of([1.0, 3.0, float("nan")])
        Spread(mean=2.0, std=1.4142135623730951, left_out=1)
    """
    listed = list(values)
    kept = np.array([value for value in listed if math.isfinite(value)], dtype=np.float64)
    if not len(kept):
        return None
    std = float(kept.std(ddof=1)) if len(kept) > 1 else None
    return Spread(float(kept.mean()), std, len(listed) - len(kept))


def spreads_of(rows: Iterable[Mapping[str, float]]) -> dict[str, Spread]:
    """The spread of every number that all rows have, where some of them are finite.

    Example:
        >>> spreads_of([{"nll": 1.0, "f1": 0.5}, {"nll": 3.0}])["nll"].mean
        2.0
    """
    listed = list(rows)
    keys = [key for key in (listed[0] if listed else {}) if all(key in row for row in listed)]
    spreads = {key: spread_of(row[key] for row in listed) for key in keys}
    return {key: spread for key, spread in spreads.items() if spread is not None}
