"""Reliability and risk–coverage of a configuration, pooled over its seeds."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.analysis.results import Result, Split
from sae.analysis.spread import spread_of
from sae.core.errors import RecordError
from sae.records.run import RunRecord

GRID = 100
"""Points of a risk–coverage curve over runs whose own points differ."""


@dataclass(frozen=True)
class Curve:
    """Points of a curve over the seeds of a configuration.

    Attributes:
        rows: The points, in order.
        runs: How many runs they are over.
        left_out: How many others there are: older ones keep curves only at the K they were trained for, and a number
            may not be finite.
    """

    rows: tuple[dict[str, Any], ...]
    runs: int
    left_out: int


def reliability_curve(result: Result, split: Split = "test") -> Curve | None:
    """Samples of all seeds, binned by the confidence of their top label; None where no run tells.

    Rows are `lower`, `upper` (bounds of confidence), `count`, `confidence` and `accuracy`, None in empty bins.
    """
    drawn = _drawn(result, split, "reliability", ("count", "confidence", "accuracy"))
    bins = max((len(item["count"]) for item in drawn), default=0)
    pooled = [item for item in drawn if len(item["count"]) == bins]
    if not pooled:
        return None
    count = np.sum([item["count"] for item in pooled], axis=0)
    means = {
        key: np.sum([item[key] * item["count"] for item in pooled], axis=0) / np.maximum(count, 1)
        for key in ("confidence", "accuracy")
    }
    rows = tuple(
        {
            "lower": index / bins,
            "upper": (index + 1) / bins,
            "count": int(count[index]),
            **{key: float(mean[index]) if count[index] else None for key, mean in means.items()},
        }
        for index in range(bins)
    )
    return Curve(rows, len(pooled), len(result.runs) - len(pooled))


def risk_curve(result: Result, split: Split = "test") -> Curve | None:
    """Mean loss of the samples that are kept when the most doubtful are left to others; None where no run tells.

    Where the runs' points of coverage differ, all are interpolated to `GRID` even ones between the bounds they share.
    Rows are `coverage`, `risk` and `std` over the seeds, None of one.
    """
    drawn = _drawn(result, split, "risk_coverage", ("coverage", "risk"))
    if not drawn:
        return None
    grid = _common_coverage([item["coverage"] for item in drawn])
    risks = np.array([np.interp(grid, item["coverage"], item["risk"]) for item in drawn])  # (run, coverage)
    spreads = [spread_of(column) for column in risks.T]
    rows = tuple(
        {"coverage": float(coverage), "risk": spread.mean, "std": spread.std}
        for coverage, spread in zip(grid, spreads, strict=True)
        if spread is not None
    )
    return Curve(rows, len(drawn), len(result.runs) - len(drawn))


def _common_coverage(coverages: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    first = coverages[0]
    if all(np.array_equal(first, other) for other in coverages):
        return first
    lower, upper = max(item[0] for item in coverages), min(item[-1] for item in coverages)
    return np.linspace(lower, upper, GRID)


def _drawn(result: Result, split: Split, name: str, keys: Sequence[str]) -> list[dict[str, NDArray[np.float64]]]:
    """The arrays of one curve, of every run that has it at K′ with finite numbers only."""
    found = (_curve_at(run, split, name, result) for run in result.runs)
    arrays = [{key: np.array(item[key], dtype=np.float64) for key in keys} for item in found if _has(item, keys)]
    return [item for item in arrays if all(len(array) and np.isfinite(array).all() for array in item.values())]


def _has(item: Mapping[str, Any], keys: Sequence[str]) -> bool:
    return all(key in item for key in keys) and len({len(item[key]) for key in keys}) == 1


def _curve_at(run: RunRecord, split: Split, name: str, result: Result) -> dict[str, Any]:
    """One curve of a run at K′; empty where it has none."""
    with suppress(RecordError), run.expecting(run.CURVES):
        drawn = run.read_json(run.CURVES).get(split, {})
        by_exits: list[dict[str, Any]] = [{**drawn, "exits": result.exits}, *drawn.get("by_exits", ())]
        at = next((item for item in by_exits if item["exits"] == result.eval_exits), {})
        return {key: [float(value) for value in values] for key, values in at.get(name, {}).items()}
    return {}
