"""How much the settings of a method move its metrics and costs, over the trials of a study."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sae.analysis.trial_values import Measured, TrialValues
from sae.config.methods import DEFAULT_METHOD, METHODS, MethodEntry
from sae.config.run import RunConfig

FEWEST = 10
"""Trials below which the p-value of a rank correlation, an approximation, is not to be trusted."""

Values = NDArray[np.float64]


def influence(trials: Iterable[TrialValues], metrics: Sequence[str], where: Measured = "val") -> list[dict[str, Any]]:
    """Measure how settings go with every metric and cost: Spearman's ρ of numbers, ANOVA's F of whole numbers.

    The settings are those that the entries of the methods name as `influences`. If the trials are of several such
    methods, a setting's label begins with its method.

    Trials whose number is missing or not finite are left out. A setting or number that does not vary, and too few
    trials, give None.

    Returns:
        Rows `setting`, `metric`, `statistic` ("rho" or "F"), `value`, `p`, `trials` (that it is over).
    """
    finished = [item for item in trials if item.state == "finished"]
    methods = dict.fromkeys(item.config.method.name for item in finished)
    shown = [entry for entry in METHODS if entry.name in methods and entry.influences] or [METHODS.get(DEFAULT_METHOD)]
    return [
        row
        for metric in metrics
        for entry in shown
        for row in _rows_of(entry, finished, metric, where, prefix=f"{entry.name}: " if len(shown) > 1 else "")
    ]


def _rows_of(
    entry: MethodEntry, finished: Sequence[TrialValues], metric: str, where: Measured, prefix: str
) -> list[dict[str, Any]]:
    own = [item for item in finished if item.config.method.name == entry.name]
    all_values = [item.get(metric, where) for item in own]
    is_known = [value is not None and math.isfinite(value) for value in all_values]
    values = np.array(all_values, dtype=np.float64)[is_known]
    rows = []
    for label, path in entry.influences.items():
        settings = [_setting(item.config, path) for item in own]
        statistic = "F" if all(isinstance(setting, int) for setting in settings) else "rho"
        value, p = (anova if statistic == "F" else spearman)(np.array(settings, dtype=np.float64)[is_known], values)
        found = {"setting": f"{prefix}{label}", "metric": metric, "statistic": statistic, "value": value, "p": p}
        rows.append({**found, "trials": len(values)})
    return rows


def spearman(setting: Values, values: Values) -> tuple[float | None, float | None]:
    """Rank correlation with its p-value; None for both where one does not vary or there are fewer than `FEWEST`."""
    if len(values) < FEWEST or np.ptp(setting) == 0 or np.ptp(values) == 0:
        return None, None
    found = stats.spearmanr(setting, values)
    return float(found.statistic), float(found.pvalue)


def anova(setting: Values, values: Values) -> tuple[float | None, float | None]:
    """F of the values grouped by the setting, with its p-value.

    None for both where there are fewer than two groups, only groups of one, or no differences within groups,
    which would make F infinite.
    """
    groups = [values[setting == level] for level in np.unique(setting)]
    if len(groups) < 2 or not any(np.ptp(group) > 0 for group in groups):
        return None, None
    found = stats.f_oneway(*groups)
    return (float(found.statistic), float(found.pvalue)) if math.isfinite(found.statistic) else (None, None)


def _setting(config: RunConfig, path: str) -> float:
    """Return a number of a config by its path, such as `method.temperature.start`."""
    found: Any = config
    for key in path.split("."):
        found = getattr(found, key)
    value: float = found
    return value
