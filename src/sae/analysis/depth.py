"""Depth preference over training: how much weight θ the inputs of a network give to each exit.

Runs may differ in their number of epochs. All are resampled at the progress of the longest, g / G for
its epochs g = 1 … G: a shorter run is interpolated linearly between its own epochs and its start, where
θ is uniform because all exit logits are 0. Runs of G epochs are not changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sae.analysis.statistics import spread_of
from sae.core.errors import RecordError
from sae.records.run import Run, RunRecord

Grouping = Literal["all", "inputs", "exits"]
"""All runs together, by their N, or by their trained K."""
Theta = NDArray[np.float64]


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
    theta: Theta

    def group(self, by: Grouping) -> str:
        """Return the name of its group."""
        return {"all": "all", "inputs": f"N={self.inputs}", "exits": f"K={self.exits}"}[by]


@dataclass(frozen=True)
class DepthPoint:
    """Weight of one exit after one epoch, over the runs of a group.

    Attributes:
        group: `all`, `N=2`, `K=3` or `input 1`.
        epoch: Epoch of the longest run.
        progress: Share of the training done, in [0, 1].
        exit: From 1, shallowest first.
        mean: Mean over the runs; None without a finite number.
        std: Standard deviation over the runs; None for one run.
        runs: Number of runs in the mean.
        left_out: Runs whose number is not finite.
    """

    group: str
    epoch: int
    progress: float
    exit: int
    mean: float | None
    std: float | None
    runs: int
    left_out: int


def read_preferences(runs: Iterable[Run]) -> list[Preference]:
    """Read θ of every finished run that has exits and a readable history; others are left out."""
    found = []
    for run in runs:
        cell = run.config.method.grid_cell() if run.config else None
        if run.config is None or cell is None or run.state != "finished":
            continue
        with suppress(RecordError, KeyError, ValueError):  # a history without θ, or with text instead of numbers
            found.append(Preference(*cell, _theta(run.record, cell[0], run.config.backbone.depth)))
    return found


def depth_preference(preferences: Sequence[Preference], by: Grouping = "all") -> list[DepthPoint]:
    """Return the mean over the inputs of each run, then mean and deviation over the runs of each group.

    Exits that only deeper networks have are averaged over these networks.
    """
    groups: dict[str, list[Theta]] = {}
    for item in sorted(preferences, key=lambda item: item.inputs if by == "inputs" else item.exits):
        groups.setdefault(item.group(by), []).append(item.theta.mean(axis=1))
    return _points(groups, _most_epochs(preferences))


def input_preference(preferences: Sequence[Preference], inputs: int) -> list[DepthPoint]:
    """Return the same as `depth_preference` for each input, over the runs with this many inputs.

    Inputs are alike until training makes them differ, so the first input of one run corresponds to any
    input of another: look at one run, or at runs of one config, before concluding that inputs agree.
    """
    alike = [item for item in preferences if item.inputs == inputs]
    groups = {f"input {index + 1}": [item.theta[:, index] for item in alike] for index in range(inputs if alike else 0)}
    return _points(groups, _most_epochs(alike))


def resample(theta: Theta, epochs: int) -> Theta:
    """Return θ (epoch, exit) of a run at the progress of another number of epochs.

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


def _points(groups: Mapping[str, Sequence[Theta]], epochs: int) -> list[DepthPoint]:
    points = []
    for group, thetas in groups.items():
        common = [resample(theta, epochs) for theta in thetas]
        for exit_ in range(max(theta.shape[1] for theta in common)):
            having = np.stack([theta[:, exit_] for theta in common if exit_ < theta.shape[1]], axis=1)  # (epoch, run)
            for epoch, values in enumerate(having, start=1):
                points.append(_point(group, epoch, epoch / epochs, exit_ + 1, values))
    return points


def _point(group: str, epoch: int, progress: float, exit_: int, values: NDArray[np.float64]) -> DepthPoint:
    spread = spread_of(values)
    if spread is None:
        return DepthPoint(group, epoch, progress, exit_, None, None, 0, len(values))
    kept = len(values) - spread.left_out
    return DepthPoint(group, epoch, progress, exit_, spread.mean, spread.std, kept, spread.left_out)


def _theta(record: RunRecord, inputs: int, depth: int) -> Theta:
    """Read (epoch, input, exit) from the columns `theta_<input>_<exit>` of a history."""
    names = [f"theta_{i}_{j}" for i in range(inputs) for j in range(depth)]
    theta = record.read_numbers(record.HISTORY, names)
    if not len(theta):
        raise ValueError("a history must have an epoch")
    return theta.reshape(-1, inputs, depth)
