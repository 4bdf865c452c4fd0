"""How the classes of methods rank: within each data set by the mean of their configurations, then over data sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sae.analysis.results import Result, Where
from sae.analysis.spread import spread_of
from sae.core.objectives import objective


@dataclass(frozen=True)
class MeanRank:
    """The rank of a class of methods in one metric or cost, 1 is best.

    Attributes:
        kind: The class.
        metric: What it is ranked by.
        mean: Over the data sets in which the class is present.
        std: Over the same; one has none.
        datasets: How many these are.
    """

    kind: str
    metric: str
    mean: float
    std: float | None
    datasets: int


def mean_ranks(
    results: Mapping[str, Sequence[Result]], metrics: Sequence[str], task: str, where: Where = "test"
) -> list[MeanRank]:
    """Ranks of all classes in each metric; a class that has no number of it in any data set has no rank in it.

    In each data set the number of a class is the mean over its configurations. Classes that share it share
    the average of their ranks. The more classes are present in a data set, the larger its ranks can be.

    Args:
        results: By data set.
        metrics: Metrics and costs to rank by.
        task: Of all data sets, `classification` or `regression`.
        where: Where metrics are taken from; costs are the same everywhere.
    """
    found = []
    for metric in metrics:
        by_kind: dict[str, list[float]] = {}
        for members in results.values():
            for kind, rank in _ranks_in(members, metric, task, where).items():
                by_kind.setdefault(kind, []).append(rank)
        for kind, ranks in by_kind.items():
            spread = spread_of(ranks)
            assert spread is not None, "ranks are finite"
            found.append(MeanRank(kind, metric, spread.mean, spread.std, len(ranks)))
    return found


def class_means(results: Sequence[Result], metric: str, where: Where = "test") -> dict[str, float]:
    """By class, the mean of a metric or cost over its configurations; those without it are left out."""
    values: dict[str, list[float]] = {}
    for result in results:
        spread = result.get(metric, where)
        if spread is not None:
            values.setdefault(result.kind, []).append(spread.mean)
    return {kind: float(np.mean(numbers)) for kind, numbers in values.items()}


def average_ranks(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1 for the least; equals share the average of the ranks that they take up.

    Example:
        >>> average_ranks(np.array([3.0, 1.0, 3.0])).tolist()
        [2.5, 1.0, 2.5]
    """
    below = (losses[None, :] < losses[:, None]).sum(axis=1)
    equal = (losses[None, :] == losses[:, None]).sum(axis=1)  # itself among them
    ranks: NDArray[np.float64] = below + (equal + 1) / 2
    return ranks


def _ranks_in(results: Sequence[Result], metric: str, task: str, where: Where) -> dict[str, float]:
    """By class, its rank in one data set."""
    means, ranked = class_means(results, metric, where), objective(metric, task)
    losses = np.array([ranked.loss(value) for value in means.values()], dtype=np.float64)
    return dict(zip(means, average_ranks(losses).tolist(), strict=True))
