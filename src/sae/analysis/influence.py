"""How much the settings of an SAE move its metrics and costs, over the trials of a study."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sae.analysis.trial_values import Measured, TrialValues
from sae.config.run import RunConfig, SaeConfig

FEWEST = 10
"""Trials below which the p-value of a rank correlation, an approximation, is not to be trusted."""

Values = NDArray[np.float64]

CONTINUOUS: dict[str, Callable[[SaeConfig], float]] = {
    "i start": lambda method: method.repeat_fraction.start,
    "i end": lambda method: method.repeat_fraction.end,
    "α start": lambda method: method.kl_weight.start,
    "α end": lambda method: method.kl_weight.end,
    "T start": lambda method: method.temperature.start,
    "T end": lambda method: method.temperature.end,
}
"""Told by rank correlation."""
DISCRETE: dict[str, Callable[[SaeConfig, RunConfig], int]] = {
    "N": lambda method, _: method.inputs,
    "K": lambda method, _: method.exits,
    "W": lambda _, config: config.backbone.width,
}
"""Told by an analysis of variance."""


def influence(trials: Iterable[TrialValues], metrics: Sequence[str], where: Measured = "val") -> list[dict[str, Any]]:
    """Spearman's ρ for continuous settings and ANOVA's F for N, K and W, of every metric and cost.

    Trials whose number is missing or not finite are left out. A setting or number that does not vary, and too few
    trials, give None.

    Returns:
        Rows `setting`, `metric`, `statistic` ("rho" or "F"), `value`, `p`, `trials` (that it is over).
    """
    finished = [item for item in trials if item.state == "finished" and isinstance(item.config.method, SaeConfig)]
    rows = []
    for metric in metrics:
        known = [(item, value) for item in finished if _is_number(value := item.get(metric, where))]
        values = np.array([value for _, value in known], dtype=np.float64)
        for setting, statistic, told in _settings([item.config for item, _ in known]):
            value, p = (spearman if statistic == "rho" else anova)(told, values)
            rows.append(
                {
                    "setting": setting,
                    "metric": metric,
                    "statistic": statistic,
                    "value": value,
                    "p": p,
                    "trials": len(values),
                }
            )
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


def _settings(configs: Sequence[RunConfig]) -> list[tuple[str, str, Values]]:
    """Every setting with its statistic and its values over the trials."""
    pairs = [(config.method, config) for config in configs if isinstance(config.method, SaeConfig)]
    continuous = [(name, "rho", [read(method) for method, _ in pairs]) for name, read in CONTINUOUS.items()]
    discrete = [
        (name, "F", [float(read(method, config)) for method, config in pairs]) for name, read in DISCRETE.items()
    ]
    return [(name, kind, np.array(values, dtype=np.float64)) for name, kind, values in (*continuous, *discrete)]


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
