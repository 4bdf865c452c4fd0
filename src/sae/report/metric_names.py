"""What metrics, costs and their units are called by people, and how many decimals of them are worth reading."""

from collections.abc import Iterable

from sae.core.objectives import METRICS, objective
from sae.core.table import Arrow, Column, digits_for, digits_for_costs

NAMES = {
    "nll": "NLL",
    "accuracy": "accuracy",
    "error": "error",
    "f1": "F1",
    "ece": "ECE",
    "cc_ece": "CC-ECE",
    "cc_ece_uniform": "CC-ECE, classes alike",
    "brier": "Brier score",
    "mse": "MSE",
    "flops": "FLOPs",
    "params": "parameters",
    "shipped_flops": "FLOPs as shipped",
    "shipped_params": "parameters as shipped",
    "latency": "ms for a batch of 64",
}
"""By the names of objectives."""
WITH_UNIT = {
    "flops": "MFLOPs",
    "params": "M params",
    "shipped_flops": "MFLOPs as shipped",
    "shipped_params": "M params as shipped",
    "latency": "ms for a batch of 64",
}
"""Of what has one, above the numbers."""

MILLION = 1e6


def name_of(metric: str) -> str:
    """A metric or cost as people call it; what has no such name keeps its own."""
    return NAMES.get(metric, metric)


def unit_of(metric: str) -> float:
    """What a value is divided by before it is shown: FLOPs and parameters are shown in millions."""
    return MILLION if metric.endswith(("flops", "params")) else 1.0


def better(metric: str, task: str) -> Arrow:
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
    where = " (shift)" if under_shift and metric in METRICS[task] else ""
    decimals = digits_for_costs(shown) if metric in WITH_UNIT else digits_for(shown)
    return Column(f"{WITH_UNIT.get(metric) or name_of(metric)}{where}", better(metric, task), decimals)
