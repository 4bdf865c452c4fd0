"""SAE trials by their number of inputs and exits: what a metric is on average in every cell of N × K."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from sae.analysis.trial_values import Measured, TrialValues
from sae.config.run import RunConfig


def cell_of(config: RunConfig) -> tuple[int, int] | None:
    """Return N and the trained K, or None for a method that is not studied over both."""
    return config.method.grid_cell()


def grid_means(trials: Iterable[TrialValues], metric: str, where: Measured = "val") -> list[dict[str, Any]]:
    """The mean of a metric or cost over the finished SAE trials of every N and trained K, at that K.

    The grid goes from 1 to the most inputs and to the most stages that any SAE trial has, whatever became of it;
    no rows if there is none.

    Returns:
        Rows `inputs`, `exits`, `trials` (that the mean is over), `value` (None where there are none) and
        `left_out` (finished, but without a finite number), by inputs, then exits.
    """
    cells: dict[tuple[int, int], list[float | None]] = {}
    most_inputs = depth = 0
    for trial in trials:
        cell = cell_of(trial.config)
        if cell is not None:
            most_inputs, depth = max(most_inputs, cell[0]), max(depth, trial.config.backbone.depth)
            if trial.state == "finished":
                cells.setdefault(cell, []).append(trial.get(metric, where))
    return [
        {"inputs": inputs, "exits": exits, **_mean_of(cells.get((inputs, exits), []))}
        for inputs in range(1, most_inputs + 1)
        for exits in range(1, depth + 1)
    ]


def _mean_of(values: list[float | None]) -> dict[str, Any]:
    kept = [value for value in values if value is not None and math.isfinite(value)]
    return {"trials": len(kept), "value": float(np.mean(kept)) if kept else None, "left_out": len(values) - len(kept)}
