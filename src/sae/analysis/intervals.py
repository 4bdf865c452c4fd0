"""Intervals of differences of means over seeds, measured on the same test samples.

Such a difference is uncertain for two reasons:

- *The choice of the samples.* They are many, so the variance over bootstrap resamples is known well.
- *The choice of the seeds.* They are few, so their variance is itself uncertain: t quantiles take the place of normal
  ones, with the degrees of freedom of Welch (1947). Where the sides have different numbers of seeds, Welch's interval
  can be too narrow, so each side gets the quantile of its own seeds.

The two half-widths add as squares ("MOVER": Zou and Donner, 2008). The spread of the seeds already holds what the
choice of the samples does to each run alone, so only the part that runs share is counted with the samples.

`benchmarks.coverage` measures how often these intervals hold the truth. With two seeds they are wide; with a single
seed they cover the choice of the samples only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from sae.analysis.statistics import LEVEL

Values = NDArray[np.float64]
SMALLEST_P = 1e-100


@dataclass(frozen=True)
class Side:
    """A number of several runs, one for each seed.

    Attributes:
        points: On all samples, (run,).
        resampled: On resamples of the samples that are the same for all sides, (resample, run).
    """

    points: Values
    resampled: Values

    @property
    def mean(self) -> float:
        """The mean over runs on all samples."""
        return float(self.points.mean())


@dataclass(frozen=True)
class Estimate:
    """A weighted sum of means over seeds, and how uncertain it is.

    Attributes:
        value: The sum on all samples.
        by_samples: Its variance by the choice of the samples, as far as all runs share it.
        by_seeds: Its variance by the choice of the seeds, from each side with several of them.
        freedoms: Degrees of freedom of these variances.
    """

    value: float
    by_samples: float
    by_seeds: tuple[float, ...]
    freedoms: tuple[int, ...]

    def reach(self, p: float = LEVEL) -> float:
        """Return the half-width of the interval with confidence 1 − p."""
        normal = float(ndtri(p / 2)) ** 2 * self.by_samples
        if not any(self.by_seeds):
            return math.sqrt(normal)
        if len(set(self.freedoms)) == 1:
            squares = sum(variance**2 / freedom for variance, freedom in zip(self.by_seeds, self.freedoms, strict=True))
            total = sum(self.by_seeds)
            return math.sqrt(float(stdtrit(total**2 / squares, p / 2)) ** 2 * total + normal)
        own = (
            float(stdtrit(freedom, p / 2)) ** 2 * variance
            for variance, freedom in zip(self.by_seeds, self.freedoms, strict=True)
        )
        return math.sqrt(sum(own) + normal)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval; infinite if a number is not finite."""
        if not math.isfinite(self.value):
            return -math.inf, math.inf
        reach = self.reach()
        return self.value - reach, self.value + reach

    @property
    def p(self) -> float:
        """The probability of a value as far from 0 if the truth is 0: the largest p whose interval does not hold 0."""
        from scipy.optimize import brentq

        size = abs(self.value)
        if size == 0 or not math.isfinite(size):
            return 1.0

        def excess(log_p: float) -> float:
            return self.reach(math.exp(log_p)) - size

        smallest = math.log(SMALLEST_P)
        return math.exp(brentq(excess, smallest, 0.0)) if excess(smallest) > 0 else SMALLEST_P


def combine(sides: Sequence[Side], weights: Sequence[float]) -> Estimate:
    """Return a weighted sum of the means of some sides, such as a difference with the weights 1 and −1.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> one, other = (Side(np.array([0.3, 0.4]) + at, rng.normal(at, 0.1, (100, 2))) for at in (0.0, 0.2))
        >>> round(combine([one, other], [1, -1]).value, 3)
        -0.2
    """
    weighted = list(zip(sides, weights, strict=True))
    several = [(side, weight**2) for side, weight in weighted if weight and len(side.points) > 1]
    with np.errstate(invalid="ignore"):  # of infinite losses, whose interval is infinite, too
        drawn = np.sum([weight * side.resampled.mean(axis=1) for side, weight in weighted], axis=0)
        alone = sum(square * _own_variance(side) for side, square in several)
        return Estimate(
            float(sum(weight * side.mean for side, weight in weighted)),
            max(0.0, float(np.var(drawn, ddof=1)) - alone),
            tuple(square * float(side.points.var(ddof=1)) / len(side.points) for side, square in several),
            tuple(len(side.points) - 1 for side, _ in several),
        )


def _own_variance(side: Side) -> float:
    """Return the variance of a side's mean by what the choice of the samples does to each run alone."""
    deviations = side.resampled - side.resampled.mean(axis=1, keepdims=True)
    count = len(side.points)
    return float(deviations.var(axis=0, ddof=1).sum()) / (count - 1) / count
