"""The best configuration of each class of methods in each metric, as in the paper's tables of results."""

from collections.abc import Sequence
from dataclasses import dataclass

from sae.analysis.results import Result, Where
from sae.core.objectives import objective


@dataclass(frozen=True)
class Best:
    """The best of a class in one metric.

    Attributes:
        kind: The class.
        metric: What it is best in.
        result: The configuration.
        configurations: How many of this class it is the best of, with the metric or without.
    """

    kind: str
    metric: str
    result: Result
    configurations: int


def best_by_kind(results: Sequence[Result], metrics: Sequence[str], task: str, where: Where = "test") -> list[Best]:
    """For each class, in the order in which they come, and each metric its best configuration.

    Of equals the one of fewest FLOPs is taken, else the first. A class without a number of a metric has
    no row for it.
    """
    by_kind: dict[str, list[Result]] = {}
    for result in results:
        by_kind.setdefault(result.kind, []).append(result)
    found = []
    for kind, members in by_kind.items():
        for metric in metrics:
            best = _best(members, metric, task, where)
            if best is not None:
                found.append(Best(kind, metric, best, len(members)))
    return found


def _best(results: Sequence[Result], metric: str, task: str, where: Where) -> Result | None:
    wanted = objective(metric, task)
    known = [(result, spread) for result in results if (spread := result.get(metric, where)) is not None]
    ordered = sorted(known, key=lambda pair: (wanted.loss(pair[1].mean), _flops(pair[0])))
    return ordered[0][0] if ordered else None


def _flops(result: Result) -> float:
    spread = result.costs.get("flops")
    return spread.mean if spread else float("inf")
