"""Verdicts on differences: better, worse, no significant difference, or not enough evidence to tell.

"No significant difference" is said only where the 95 % interval of the difference is narrow enough to tell: no wider
than the margin of the metric, the smallest difference that matters. Margins are in the entries of the metrics.
"""

from typing import Literal

from sae.core.objectives import metrics_of

Verdict = Literal["better", "worse", "no significant difference", "not enough evidence to tell"]
BETTER: Verdict = "better"
WORSE: Verdict = "worse"
ALIKE: Verdict = "no significant difference"
UNKNOWN: Verdict = "not enough evidence to tell"
LEVEL = 0.05
"""Significance level: the chance of a difference being found where there is none."""
SCALED = "_scaled"
"""Behind the name of a metric: after temperature scaling fitted on validation."""


def margin_of(metric: str, task: str, beside: float) -> float:
    """Return the smallest difference of a metric that matters.

    Args:
        metric: Its name; after temperature scaling it has the same margin.
        task: `classification` or `regression`.
        beside: The value that it is compared with. The margin of an error in the target's unit is a share of it.

    Example:
        >>> margin_of("nll", "classification", 0.5), margin_of("rmse", "regression", 200.0)
        (0.01, 4.0)
    """
    entry = metrics_of(task)[metric.removesuffix(SCALED)]
    return entry.margin * abs(beside) if entry.power else entry.margin


def verdict_of(low: float, high: float, margin: float, *, is_significant: bool, is_better: bool) -> Verdict:
    """Return what may be said of a difference.

    Args:
        low: Lower end of its 95 % interval.
        high: Upper end of it.
        margin: The smallest difference that matters.
        is_significant: Whether it is more than chance explains.
        is_better: Whether it speaks for the first.

    Example:
        >>> verdict_of(-0.002, 0.003, 0.01, is_significant=False, is_better=True)
        'no significant difference'
        >>> verdict_of(-0.02, 0.03, 0.01, is_significant=False, is_better=True)
        'not enough evidence to tell'
    """
    if is_significant:
        return BETTER if is_better else WORSE
    return ALIKE if high - low <= margin else UNKNOWN
