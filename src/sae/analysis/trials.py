"""Effects of settings over the trials of a study: means by N and K, influences, and correlations of errors."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sae.config.methods import METHODS
from sae.config.run import RunConfig
from sae.core.objectives import ERROR_CORRELATION
from sae.records.evaluation import Where
from sae.records.run import Run

FEWEST = 10
"""Fewest trials for a rank correlation: with fewer, its approximate p-value cannot be trusted."""

Values = NDArray[np.float64]
Statistic = Literal["rho", "F"]
SETTINGS = ("i end", "N", "K")
"""Settings that should make members more or less similar, by their labels in a method's entry."""


@dataclass(frozen=True)
class CellMean:
    """The mean of a metric or cost over the finished trials of N inputs and K exits.

    Attributes:
        inputs: N.
        exits: The trained K.
        trials: Number of trials in the mean.
        value: The mean; None without trials.
        left_out: Finished trials without a finite number.
    """

    inputs: int
    exits: int
    trials: int
    value: float | None
    left_out: int


def grid_means(runs: Iterable[Run], metric: str, where: Where = "val") -> list[CellMean]:
    """Return the mean of a metric or cost over the finished trials of every N and trained K, at that K.

    The grid goes up to the most inputs and the most stages of any trial that has both, however it
    ended. It is empty if no method of the study has N and K.

    Returns:
        Cells by inputs, then exits.
    """
    cells: dict[tuple[int, int], list[float | None]] = {}
    most_inputs = depth = 0
    for run in runs:
        cell = run.config.method.grid_cell() if run.config else None
        if run.config is not None and cell is not None:
            most_inputs, depth = max(most_inputs, cell[0]), max(depth, run.config.backbone.depth)
            if run.state == "finished":
                cells.setdefault(cell, []).append(run.value(metric, where))
    return [
        _cell_mean(inputs, exits, cells.get((inputs, exits), []))
        for inputs in range(1, most_inputs + 1)
        for exits in range(1, depth + 1)
    ]


def _cell_mean(inputs: int, exits: int, values: Sequence[float | None]) -> CellMean:
    kept = [value for value in values if value is not None and math.isfinite(value)]
    mean = float(np.mean(kept)) if kept else None
    return CellMean(inputs, exits, len(kept), mean, len(values) - len(kept))


@dataclass(frozen=True)
class Influence:
    """The influence of a setting on a metric or cost.

    Attributes:
        method: The method of the setting.
        setting: The setting, as the paper calls it.
        metric: The metric or cost.
        statistic: Spearman's `rho` for real numbers, ANOVA's `F` for whole ones.
        value: The statistic; None if it cannot be computed.
        p: Its p-value; None if it cannot be computed.
        trials: Number of trials.
    """

    method: str
    setting: str
    metric: str
    statistic: Statistic
    value: float | None
    p: float | None
    trials: int


def influence(runs: Iterable[Run], metrics: Sequence[str], where: Where = "val") -> list[Influence]:
    """Return the influence of every setting that a method names as influential, on every metric and cost.

    Trials whose number is missing or not finite are left out. A setting or number that does not vary,
    and too few trials, give None.
    """
    by_method: dict[str, list[tuple[Run, RunConfig]]] = {}
    for run in runs:
        if run.state == "finished" and run.config is not None:
            by_method.setdefault(run.config.method.name, []).append((run, run.config))
    return [found for method, finished in by_method.items() for found in _influences(method, finished, metrics, where)]


def _influences(
    method: str, finished: Sequence[tuple[Run, RunConfig]], metrics: Sequence[str], where: Where
) -> Iterator[Influence]:
    paths = METHODS.get(method).influences
    levels = {setting: [setting_at(config, path) for _, config in finished] for setting, path in paths.items()}
    discrete = {setting for setting, found in levels.items() if all(isinstance(level, int) for level in found)}
    numbers = {setting: np.array(found, dtype=np.float64) for setting, found in levels.items()}
    for metric in metrics:
        found = [run.value(metric, where) for run, _ in finished]
        every = np.array([math.nan if value is None else value for value in found], dtype=np.float64)
        is_known = np.isfinite(every)
        values = every[is_known]
        for setting in paths:
            is_discrete = setting in discrete
            value, p = (anova if is_discrete else spearman)(numbers[setting][is_known], values)
            yield Influence(method, setting, metric, "F" if is_discrete else "rho", value, p, len(values))


def setting_at(config: RunConfig, path: str) -> float:
    """Return the number at a path of settings, `method.temperature.start`."""
    found: object = reduce(getattr, path.split("."), config)
    assert isinstance(found, int | float), f"an influential setting is a number, {path} is {found!r}"
    return found


def spearman(setting: Values, values: Values) -> tuple[float | None, float | None]:
    """Return the rank correlation and its p-value; None for both without variation or `FEWEST` trials."""
    from scipy import stats

    if len(values) < FEWEST or np.ptp(setting) == 0 or np.ptp(values) == 0:
        return None, None
    found = stats.spearmanr(setting, values)
    return float(found.statistic), float(found.pvalue)


def anova(setting: Values, values: Values) -> tuple[float | None, float | None]:
    """Return F of the values grouped by the setting, and its p-value.

    None for both with fewer than two groups, with groups of one only, or without differences within
    groups, which would make F infinite.
    """
    from scipy import stats

    groups = [values[setting == level] for level in np.unique(setting)]
    if len(groups) < 2 or not any(np.ptp(group) > 0 for group in groups):
        return None, None
    found = stats.f_oneway(*groups)
    return (float(found.statistic), float(found.pvalue)) if math.isfinite(found.statistic) else (None, None)


@dataclass(frozen=True)
class CorrelationPoint:
    """The mean correlation of the errors of two members of a network, at one of its settings.

    Attributes:
        setting: Label of the setting.
        value: Its value.
        correlation: From 0 for independent members to 1 for equal ones.
        run: The run.
    """

    setting: str
    value: float
    correlation: float
    run: str


def correlation_points(runs: Iterable[Run], where: Where = "test") -> list[CorrelationPoint]:
    """Return a point for every setting of every finished run with several members, at its trained K."""
    points: list[CorrelationPoint] = []
    for run in runs:
        found = run.value(ERROR_CORRELATION, where)
        if run.config is None or found is None:
            continue
        paths = METHODS.get(run.config.method.name).influences
        points += [
            CorrelationPoint(setting, setting_at(run.config, paths[setting]), found, run.label)
            for setting in SETTINGS
            if setting in paths
        ]
    return points
