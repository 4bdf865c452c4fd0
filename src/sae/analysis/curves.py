"""Reliability and risk–coverage curves of a configuration, pooled over its seeds."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sae.analysis.results import Result
from sae.analysis.statistics import spread_of
from sae.core.errors import RecordError
from sae.records.evaluation import CurveReading, Part, Reliability, RiskCoverage, Split

CURVE_POINTS = 100
"""Points of a risk–coverage curve if those of its runs differ."""

Point = TypeVar("Point")
Drawn = TypeVar("Drawn", bound=Part)
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Curve(Generic[Point]):
    """Points of a curve over the seeds of a configuration.

    Attributes:
        points: The points in order.
        runs: Number of runs that are pooled.
        left_out: Number of runs whose curves are damaged or not finite.
    """

    points: tuple[Point, ...]
    runs: int
    left_out: int


@dataclass(frozen=True)
class ReliabilityBin:
    """Samples whose confidence lies between two bounds; an empty bin has neither mean."""

    lower: float
    upper: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True)
class RiskPoint:
    """Mean loss at a coverage, with its standard deviation over seeds (None for one)."""

    coverage: float
    risk: float
    std: float | None


def reliability_curve(result: Result, split: Split = "test") -> Curve[ReliabilityBin] | None:
    """Pool the samples of all seeds in bins of their confidence; None if no run has a reliability curve."""
    drawn = _drawn(result, split, lambda reading: reading.reliability)
    bins = max((len(item.count) for item in drawn), default=0)
    pooled = [item for item in drawn if len(item.count) == bins]
    if not pooled:
        return None
    count = np.sum([item.count for item in pooled], axis=0)

    def mean(values: Callable[[Reliability], Sequence[float]]) -> Values:
        weighted = [np.array(values(item)) * np.array(item.count) for item in pooled]
        total: Values = np.sum(weighted, axis=0) / np.maximum(count, 1)
        return total

    confidence, accuracy = mean(lambda item: item.confidence), mean(lambda item: item.accuracy)
    points = tuple(
        ReliabilityBin(
            index / bins,
            (index + 1) / bins,
            int(count[index]),
            float(confidence[index]) if count[index] else None,
            float(accuracy[index]) if count[index] else None,
        )
        for index in range(bins)
    )
    return Curve(points, len(pooled), len(result.runs) - len(pooled))


def risk_curve(result: Result, split: Split = "test") -> Curve[RiskPoint] | None:
    """Return the mean loss of the samples that are kept when the most uncertain are left out.

    If the runs' points of coverage differ, all curves are interpolated at `CURVE_POINTS` even points between the
    bounds that they share. None if no run has the curve.
    """
    drawn = _drawn(result, split, lambda reading: reading.risk_coverage)
    if not drawn:
        return None
    grid = _common_coverage([np.array(item.coverage, dtype=np.float64) for item in drawn])
    risks = np.array([np.interp(grid, item.coverage, item.risk) for item in drawn])  # (run, coverage)
    spreads = [spread_of(column) for column in risks.T]
    points = tuple(
        RiskPoint(float(coverage), spread.mean, spread.std)
        for coverage, spread in zip(grid, spreads, strict=True)
        if spread is not None
    )
    return Curve(points, len(drawn), len(result.runs) - len(drawn))


def _common_coverage(coverages: Sequence[Values]) -> Values:
    first = coverages[0]
    if all(np.array_equal(first, other) for other in coverages):
        return first
    lower, upper = max(item[0] for item in coverages), min(item[-1] for item in coverages)
    return np.linspace(lower, upper, CURVE_POINTS)


def _drawn(result: Result, split: Split, part: Callable[[CurveReading], Drawn | None]) -> list[Drawn]:
    """Return one curve of every run that has a sound one at K′: finite numbers, all columns of one length."""
    found = []
    for run in result.runs:
        with suppress(RecordError):
            drawn = part(run.record.read_curves(split).at(result.eval_exits))
            found += [drawn] if drawn is not None and _is_sound(drawn) else []
    return found


def _is_sound(drawn: Reliability | RiskCoverage | Part) -> bool:
    columns = [np.array(values, dtype=np.float64) for _, values in drawn]
    return len({len(column) for column in columns}) == 1 and all(
        len(column) and np.isfinite(column).all() for column in columns
    )
