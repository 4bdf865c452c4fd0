"""Depth preference over training: how much weight θ the inputs of an SAE give to each exit.

Runs may differ in their number of epochs. All are put on the progress of the longest, g / G for its
epochs g = 1 … G: a shorter run is interpolated linearly between its own epochs and its start, where θ
is uniform because all exit logits are 0. Runs of G epochs are taken as they are.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sae.analysis.spread import spread_of
from sae.core.errors import RecordError
from sae.records.run import RunRecord

Grouping = Literal["all", "inputs", "exits"]
"""All runs together, by their N, or by the K they were trained for."""


@dataclass(frozen=True)
class Preference:
    """θ of one run after each epoch.

    Attributes:
        inputs: N.
        exits: K.
        theta: (epoch, input, exit).
    """

    inputs: int
    exits: int
    theta: NDArray[np.float64]

    def group(self, by: Grouping) -> str:
        """The group that it belongs to."""
        return {"all": "all", "inputs": f"N={self.inputs}", "exits": f"K={self.exits}"}[by]


def read_preferences(runs: Iterable[RunRecord]) -> list[Preference]:
    """Of every SAE run that finished and whose history can be read; others are left out."""
    found = []
    for run in runs:
        with suppress(RecordError, KeyError, ValueError):  # a history without θ, or with something else than numbers
            cell = run.config.method.grid_cell()
            if cell is not None and run.is_finished:
                theta = _theta(run.read_rows(run.HISTORY), cell[0], run.config.backbone.depth)
                found.append(Preference(*cell, theta))
    return found


def depth_preference(preferences: Sequence[Preference], by: Grouping = "all") -> list[dict[str, Any]]:
    """The mean over the inputs of each run, then mean and standard deviation over the runs of each group.

    Returns:
        Rows `group` (`all`, `N=2` or `K=3`), `epoch` (of the longest run), `progress` (in [0, 1]), `exit` (from 1),
        `mean`, `std` (None of one run), `runs` (that it is over) and `left_out` (for numbers that are not
        finite). Exits that only deeper networks have are over these.
    """
    groups: dict[str, list[NDArray[np.float64]]] = {}
    for item in sorted(preferences, key=lambda item: item.inputs if by == "inputs" else item.exits):
        groups.setdefault(item.group(by), []).append(item.theta.mean(axis=1))
    return _rows(groups, _most_epochs(preferences))


def input_preference(preferences: Sequence[Preference], inputs: int) -> list[dict[str, Any]]:
    """The same for each input apart, of the runs with so many; groups are `input 1` … `input N`.

    Inputs are alike until training tells them apart, so that the first of one run has no more to do with the
    first of another than with its second: look at one run, or at runs of one config, before saying that
    inputs agree.
    """
    alike = [item for item in preferences if item.inputs == inputs]
    groups = {f"input {index + 1}": [item.theta[:, index] for item in alike] for index in range(inputs if alike else 0)}
    return _rows(groups, _most_epochs(alike))


def resample(theta: NDArray[np.float64], epochs: int) -> NDArray[np.float64]:
    """θ (epoch, exit) of a run at the progress of another number of epochs.

    Example:
        >>> resample(np.array([[0.7, 0.3]]), 2).tolist()
        [[0.6, 0.4], [0.7, 0.3]]
    """
    if len(theta) == epochs:
        return theta
    own = np.arange(len(theta) + 1) / len(theta)
    wanted = np.arange(1, epochs + 1) / epochs
    start = np.full((1, theta.shape[1]), 1 / theta.shape[1])
    values = np.concatenate([start, theta])
    return np.stack([np.interp(wanted, own, values[:, exit_]) for exit_ in range(theta.shape[1])], axis=1)


def _most_epochs(preferences: Sequence[Preference]) -> int:
    return max((len(item.theta) for item in preferences), default=0)


def _rows(groups: Mapping[str, Sequence[NDArray[np.float64]]], epochs: int) -> list[dict[str, Any]]:
    rows = []
    for group, thetas in groups.items():
        common = [resample(theta, epochs) for theta in thetas]
        for exit_ in range(max(theta.shape[1] for theta in common)):
            having = [theta[:, exit_] for theta in common if exit_ < theta.shape[1]]
            for epoch in range(epochs):
                place = {"epoch": epoch + 1, "progress": (epoch + 1) / epochs, "exit": exit_ + 1}
                rows.append({"group": group, **place, **_over_runs([theta[epoch] for theta in having])})
    return rows


def _over_runs(values: Sequence[float]) -> dict[str, Any]:
    spread = spread_of(values)
    if spread is None:
        return {"mean": None, "std": None, "runs": 0, "left_out": len(values)}
    left_out = spread.left_out
    return {"mean": spread.mean, "std": spread.std, "runs": len(values) - left_out, "left_out": left_out}


def _theta(rows: Sequence[Mapping[str, str]], inputs: int, depth: int) -> NDArray[np.float64]:
    """(epoch, input, exit) from the columns `theta_<input>_<exit>` of a history."""
    names = [[f"theta_{i}_{j}" for j in range(depth)] for i in range(inputs)]
    theta = np.array([[[float(row[name]) for name in line] for line in names] for row in rows], dtype=np.float64)
    if not len(theta):
        raise ValueError("a history must have an epoch")
    return theta
