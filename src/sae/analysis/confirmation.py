"""What the configurations of a front come to on other seeds: mean and spread on the test sets."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sae.analysis.candidates import Candidate, measured_costs
from sae.objectives import COSTS
from sae.record import RunRecord

SHIFTED_TEST = "shift-test.json"
"""A run on the 95 corrupted test sets, at every number of exits."""


def summarise(candidate: Candidate, runs: Sequence[RunRecord], eval_exits: int) -> dict[str, Any]:
    """One configuration at K′ exits over the runs that differ in their seed; runs that failed are counted, not used."""
    finished = [run for run in runs if run.is_finished]
    items = [_at(run.report("test")["by_exits"], eval_exits) for run in finished]
    shifted = [run for run in finished if (run.path / SHIFTED_TEST).exists()]
    under_shift = [_at(run.read_json(SHIFTED_TEST)["by_exits"], eval_exits) for run in shifted]
    return {
        **candidate.describe(),
        "confirmed_in": sorted(str(run.path) for run in runs),
        "seeds": len(finished),
        "failed": len(runs) - len(finished),
        "test": spread_of(item["metrics"] for item in items),
        "costs": spread_of(
            {key: item[key] for key in COSTS if key in item} | measured_costs(run).get(eval_exits, {})
            for run, item in zip(finished, items, strict=True)
        ),
        "shift": spread_of(item["metrics"] for item in under_shift) if shifted else None,
        "shift_std_over_sets": spread_of(item.get("std_over_sets", {}) for item in under_shift) if shifted else None,
        "seconds": spread_of({"seconds": (run.status or {}).get("seconds", 0.0)} for run in finished).get("seconds"),
    }


def spread_of(rows: Iterable[dict[str, float]]) -> dict[str, dict[str, float | None]]:
    """Mean and standard deviation of every number that all rows have; one row has no deviation.

    Example:
        >>> spread_of([{"nll": 1.0}, {"nll": 3.0}])["nll"]["mean"]
        2.0
    """
    listed = list(rows)
    keys = [key for key in (listed[0] if listed else {}) if all(key in row for row in listed)]
    columns = {key: np.array([row[key] for row in listed], dtype=np.float64) for key in keys}
    return {
        key: {"mean": float(values.mean()), "std": float(values.std(ddof=1)) if len(values) > 1 else None}
        for key, values in columns.items()
    }


def _at(by_exits: Sequence[dict[str, Any]], eval_exits: int) -> dict[str, Any]:
    return next(item for item in by_exits if item["exits"] == eval_exits)
