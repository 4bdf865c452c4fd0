"""Means, standard deviations and intervals over seeds, and verdicts on differences.

The verdict is "no significant difference" only if the 95 % interval of the difference is no wider than the margin of
the metric, the smallest difference that matters. Margins are in the entries of the metrics.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sae.core.objectives import metrics_of

Verdict = Literal["better", "worse", "no significant difference", "not enough evidence to tell"]
BETTER: Verdict = "better"
WORSE: Verdict = "worse"
ALIKE: Verdict = "no significant difference"
UNKNOWN: Verdict = "not enough evidence to tell"
LEVEL = 0.05
"""Significance level: the chance of finding a difference where there is none."""
SCALED = "_scaled"
"""Suffix of a metric's name: measured after temperature scaling fitted on validation."""


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of one number over several runs.

    Attributes:
        mean: Mean of the finite numbers.
        std: Standard deviation of the finite numbers, by default that of a sample (n − 1); None for a single one.
        left_out: How many numbers were not finite.
    """

    mean: float
    std: float | None
    left_out: int = 0

    def describe(self) -> dict[str, float | None]:
        """Return mean and standard deviation as JSON."""
        return {"mean": self.mean, "std": self.std}


def spread_of(values: Iterable[float], *, population: bool = False) -> Spread | None:
    """Return mean and standard deviation of the finite numbers; None if there are none.

    Args:
        values: The numbers.
        population: Whether they are the whole population (n) and not a sample of it (n − 1).

    Example:
        >>> spread_of([1.0, 3.0, float("nan")])
        Spread(mean=2.0, std=1.4142135623730951, left_out=1)
    """
    listed = values if isinstance(values, np.ndarray) else np.array(list(values), dtype=np.float64)
    kept = np.ascontiguousarray(listed[np.isfinite(listed)])
    if not len(kept):
        return None
    std = float(kept.std(ddof=0 if population else 1)) if len(kept) > 1 else None
    return Spread(float(kept.mean()), std, len(listed) - len(kept))


def spreads_of(rows: Iterable[Mapping[str, float]]) -> dict[str, Spread]:
    """Return the spread of every number that all rows have, leaving out those without a finite value.

    Example:
        >>> spreads_of([{"nll": 1.0, "f1": 0.5}, {"nll": 3.0}])["nll"].mean
        2.0
    """
    listed = list(rows)
    keys = [key for key in (listed[0] if listed else {}) if all(key in row for row in listed)]
    spreads = {key: spread_of(row[key] for row in listed) for key in keys}
    return {key: spread for key, spread in spreads.items() if spread is not None}


@dataclass(frozen=True)
class Sample:
    """Mean, standard deviation and number of seeds."""

    mean: float
    std: float
    count: int


@dataclass(frozen=True)
class Interval:
    """A 95 % interval of a difference, and its p-value."""

    low: float
    high: float
    p: float


def welch_interval(one: Sample, other: Sample, level: float = 0.95) -> Interval:
    """Return Welch's interval and p-value of the difference of two means, the first minus the second.

    Example:
        >>> found = welch_interval(Sample(0.84, 0.02, 4), Sample(0.80, 0.01, 4))
        >>> round(found.low, 3), round(found.high, 3), round(found.p, 2)
        (0.01, 0.07, 0.02)
    """
    from scipy.stats import t

    difference = one.mean - other.mean
    shares = one.std**2 / one.count, other.std**2 / other.count
    error = math.sqrt(sum(shares))
    if error == 0:
        return Interval(difference, difference, float(difference == 0))
    freedom = sum(shares) ** 2 / sum(
        share**2 / (side.count - 1) for share, side in zip(shares, (one, other), strict=True)
    )
    reach = float(t.ppf((1 + level) / 2, freedom)) * error
    return Interval(difference - reach, difference + reach, float(2 * t.sf(abs(difference) / error, freedom)))


def margin_of(metric: str, task: str, beside: float) -> float:
    """Return the smallest difference of a metric that matters.

    Args:
        metric: Its name; after temperature scaling it has the same margin.
        task: `classification` or `regression`.
        beside: The value to compare with. The margin of a metric in the target's unit is a share of it.

    Example:
        >>> margin_of("nll", "classification", 0.5), margin_of("rmse", "regression", 200.0)
        (0.01, 4.0)
    """
    entry = metrics_of(task)[metric.removesuffix(SCALED)]
    return entry.margin * abs(beside) if entry.power else entry.margin


def is_lower_better(metric: str, task: str) -> bool:
    """Return whether less of a metric is better, also after temperature scaling."""
    return not metrics_of(task)[metric.removesuffix(SCALED)].maximise


def verdict_of(low: float, high: float, margin: float, *, is_significant: bool, is_better: bool) -> Verdict:
    """Return the verdict on a difference.

    Args:
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
        margin: The smallest difference that matters.
        is_significant: Whether the difference is significant.
        is_better: Whether it favours the first.

    Example:
        >>> verdict_of(-0.002, 0.003, 0.01, is_significant=False, is_better=True)
        'no significant difference'
        >>> verdict_of(-0.02, 0.03, 0.01, is_significant=False, is_better=True)
        'not enough evidence to tell'
    """
    if is_significant:
        return BETTER if is_better else WORSE
    return ALIKE if high - low <= margin else UNKNOWN
