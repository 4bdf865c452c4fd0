"""Comparisons of kinds of methods: their ranks, and the best configuration of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sae.analysis.results import Result, Tested
from sae.analysis.statistics import spread_of
from sae.core.objectives import objective

OR = " or "
"""Joins the names of metrics that share a column, because data sets use different ones."""


@dataclass(frozen=True)
class MeanRank:
    """Rank of a kind in one metric or cost; 1 is best.

    Attributes:
        kind: The kind.
        metric: The metric or cost; several names joined by `OR` if data sets use different ones.
        mean: Mean over the data sets in which the kind is present.
        std: Standard deviation over them, divided by their number as in the paper; None for a single one.
        datasets: Number of these data sets.
    """

    kind: str
    metric: str
    mean: float
    std: float | None
    datasets: int


def mean_ranks(
    results: Mapping[str, Sequence[Result]],
    metrics: Sequence[str | Mapping[str, str]],
    task: str,
    where: Tested = "test",
) -> list[MeanRank]:
    """Rank all kinds in each metric; a kind that no data set has a number for has no rank.

    In each data set the number of a kind is the mean over its configurations. Kinds with the same
    number share the average of their ranks. Data sets with more kinds allow larger ranks.

    Args:
        results: Results by data set.
        metrics: Metrics and costs to rank by; a mapping by data set if data sets use different ones.
        task: The task of all data sets, `classification` or `regression`.
        where: Clean or corrupted test split; costs are the same for both.
    """
    found = []
    for metric in metrics:
        by_data = dict.fromkeys(results, metric) if isinstance(metric, str) else metric
        name = OR.join(dict.fromkeys(by_data[data] for data in results))
        by_kind: dict[str, list[float]] = {}
        for data, members in results.items():
            for kind, rank in _ranks_in(members, by_data[data], task, where).items():
                by_kind.setdefault(kind, []).append(rank)
        for kind, ranks in by_kind.items():
            spread = spread_of(ranks, population=True)  # as in the paper: these data sets, not a sample
            assert spread is not None, "ranks are finite"
            found.append(MeanRank(kind, name, spread.mean, spread.std, len(ranks)))
    return found


def kind_means(results: Sequence[Result], metric: str, where: Tested = "test") -> dict[str, float]:
    """Return by kind the mean of a metric or cost over its configurations that have it."""
    values: dict[str, list[float]] = {}
    for result in results:
        spread = result.get(metric, where)
        if spread is not None:
            values.setdefault(result.kind, []).append(spread.mean)
    return {kind: float(np.mean(numbers)) for kind, numbers in values.items()}


def _ranks_in(results: Sequence[Result], metric: str, task: str, where: Tested) -> dict[str, float]:
    """Rank the kinds within one data set."""
    from scipy.stats import rankdata

    means, ranked = kind_means(results, metric, where), objective(metric, task)
    ranks = rankdata([ranked.loss(value) for value in means.values()])
    return dict(zip(means, ranks.tolist(), strict=True))


def best_by_kind(
    results: Sequence[Result], metrics: Sequence[str], task: str, where: Tested = "test"
) -> dict[str, dict[str, Result]]:
    """Return by kind and metric the best configuration, as in the paper's tables of results.

    Among equals, the one with the fewest FLOPs is taken, then the first. A kind without a number of a
    metric has no entry for it.
    """
    by_kind: dict[str, list[Result]] = {}
    for result in results:
        by_kind.setdefault(result.kind, []).append(result)
    found = {
        kind: {metric: _best(members, metric, task, where) for metric in metrics} for kind, members in by_kind.items()
    }
    return {
        kind: {metric: best for metric, best in by_metric.items() if best is not None}
        for kind, by_metric in found.items()
    }


def _best(results: Sequence[Result], metric: str, task: str, where: Tested) -> Result | None:
    wanted = objective(metric, task)
    known = [(result, spread) for result in results if (spread := result.get(metric, where)) is not None]
    ordered = sorted(known, key=lambda pair: (wanted.loss(pair[1].mean), _flops(pair[0])))
    return ordered[0][0] if ordered else None


def _flops(result: Result) -> float:
    spread = result.costs.get("flops")
    return spread.mean if spread else float("inf")
