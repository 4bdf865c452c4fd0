"""What metrics, costs and their units are called by people, and how many decimals of them are worth reading."""

import math
from collections.abc import Iterable

from sae.core.objectives import ALL_COSTS, METRICS, metrics_of, objective
from sae.report.content import Column

MOST_DIGITS = 6


def name_of(metric: str) -> str:
    """Return the label of a metric or cost; what is not registered keeps its own name."""
    labels = {entry.key: entry.label for entry in METRICS} | {key: cost.label for key, cost in ALL_COSTS.items()}
    return labels.get(metric, metric)


def unit_of(metric: str) -> float:
    """Return what a value is divided by before it is shown: FLOPs and parameters are shown in millions."""
    return ALL_COSTS[metric].divisor if metric in ALL_COSTS else 1.0


def better(metric: str, task: str) -> str:
    """The arrow that says which way is better.

    Example:
        >>> better("f1", "classification"), better("flops", "classification")
        ('↑', '↓')
    """
    return "↑" if objective(metric, task).quantity.maximise else "↓"


def metric_column(metric: str, task: str, shown: Iterable[float], under_shift: bool = False) -> Column:
    """The column of a metric or cost.

    Args:
        metric: By the name of its objective.
        task: What is predicted.
        shown: The numbers that will be in it, in its unit.
        under_shift: Whether it was measured on corrupted samples.
    """
    where = " (shift)" if under_shift and metric in metrics_of(task) else ""
    is_cost = metric in ALL_COSTS
    title = ALL_COSTS[metric].unit if is_cost else name_of(metric)
    return Column(f"{title}{where}", better(metric, task), (cost_digits if is_cost else digits_for)(shown))


def digits_for(values: Iterable[float]) -> int:
    """Decimals that show three digits of the largest; shares of one have three also where one of them is 1.

    Example:
        >>> digits_for([1.0, 0.02]), digits_for([12.5]), digits_for([3200.0])
        (3, 1, 0)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return 3 if largest == 1 else _digits(largest)


def cost_digits(values: Iterable[float]) -> int:
    """Decimals that show three digits of the least: costs differ by factors, and the least is of most interest.

    Example:
        >>> cost_digits([0.165, 7.4]), cost_digits([1200.0, 450.0])
        (3, 0)
    """
    least = min((abs(value) for value in values if value and math.isfinite(value)), default=0.0)
    return _digits(least)


def _digits(value: float) -> int:
    return min(MOST_DIGITS, max(0, 2 - math.floor(math.log10(value)))) if value else 3
