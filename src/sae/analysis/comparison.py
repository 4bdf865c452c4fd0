"""Whether two configurations are told apart by their runs on several seeds."""

import math

from sae.analysis.results import Result, Where
from sae.core.objectives import Objective

BETTER, WORSE, ALIKE = "better", "worse", "not told apart"
LEVEL = 0.05
"""The chance of telling two apart that are alike."""

Side = tuple[float, float, int]
"""A mean, its standard deviation and the number of seeds."""


def compare(one: Result, other: Result, item: Objective, where: Where = "test") -> str:
    """Whether the first is better, worse, or not told apart, by Welch's t-test at 5 %; single seeds never are.

    Few seeds tell little: of two each, means have to differ by several times their standard deviations.
    Who has seeds of which nothing is known, such as those that diverged, is never better for it.
    """
    mean, rival = one.get(item.name, where), other.get(item.name, where)
    if mean is None or rival is None or mean.std is None or rival.std is None:
        return ALIKE
    runs = (one.shift_runs, other.shift_runs) if where == "shift" else (len(one.runs), len(other.runs))
    own, others = (mean.mean, mean.std, runs[0] - mean.left_out), (rival.mean, rival.std, runs[1] - rival.left_out)
    if difference_probability(own, others) >= LEVEL:
        return ALIKE
    if item.loss(mean.mean) < item.loss(rival.mean):
        return ALIKE if mean.left_out or one.failed else BETTER
    return ALIKE if rival.left_out or other.failed else WORSE


def difference_probability(one: Side, other: Side) -> float:
    """Welch's p-value that two means differ by chance, each with its standard deviation and number of seeds.

    Example:
        >>> round(difference_probability((0.84, 0.02, 4), (0.80, 0.01, 4)), 2)
        0.02
    """
    from scipy.stats import ttest_ind_from_stats

    if one[1] == other[1] == 0:
        return 1.0 if one[0] == other[0] else 0.0
    p = float(ttest_ind_from_stats(*one, *other, equal_var=False).pvalue)
    return p if math.isfinite(p) else 1.0
