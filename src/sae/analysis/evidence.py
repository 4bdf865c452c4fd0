"""Evidence that one network is better than another: differences on the test split, with intervals and verdicts.

Runs that kept their predictions are compared sample by sample, with intervals over the test samples and the seeds.
Other runs, and results on corrupted images, are compared by their means over seeds alone (Welch's interval), which
ignores the choice of the test samples.

A difference is called better or worse if it is significant after Holm's correction for all comparisons made together.
Otherwise `sae.analysis.statistics` decides whether its interval is narrow enough to say that there is none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sae.analysis.bootstrap import Difference, compare_samples
from sae.analysis.contestants import Contestant
from sae.analysis.results import Result, Tested
from sae.analysis.sample_metrics import SAMPLE_METRICS
from sae.analysis.statistics import (
    LEVEL,
    UNKNOWN,
    Sample,
    Spread,
    Verdict,
    is_lower_better,
    margin_of,
    verdict_of,
    welch_interval,
)
from sae.core.errors import SaeError
from sae.core.objectives import TaskName
from sae.records.predictions import Predictions

Rival = TypeVar("Rival")


@dataclass(frozen=True)
class Evidence:
    """The difference of two networks in a metric.

    Attributes:
        metric: Its name.
        where: Clean or corrupted test split.
        value: The difference of the means over seeds, the first minus the second.
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
        p: The p-value, corrected for all comparisons made together.
        margin: The smallest difference that matters.
        lower_is_better: Whether less of the metric is better.
        seeds: Number of seeds of the two.
        samples: Number of test samples in a comparison sample by sample; None if only means over seeds are compared.
        can_win: Whether the first and the second may be called better; a network with failed seeds may not.
    """

    metric: str
    where: Tested
    value: float
    low: float
    high: float
    p: float
    margin: float
    lower_is_better: bool
    seeds: tuple[int, int]
    samples: int | None
    can_win: tuple[bool, bool] = (True, True)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the first network."""
        is_significant, is_better = self.p < LEVEL, (self.value < 0) == self.lower_is_better
        if is_significant and not self.can_win[0 if is_better else 1]:
            return UNKNOWN
        return verdict_of(self.low, self.high, self.margin, is_significant=is_significant, is_better=is_better)


def read_predictions(result: Result) -> Contestant | None:
    """Return the kept predictions of all runs of a result; None if a run has none, or none at this K′."""
    try:
        runs = tuple(Predictions.read(run.record) for run in result.runs)
    except SaeError:
        return None
    if not runs or any(result.eval_exits not in run.test.readings for run in runs):
        return None
    seeds = tuple(run.config.seed for run in result.runs if run.config)
    return Contestant(result.label, runs, (result.eval_exits,) * len(runs), seeds)


def gather_evidence(
    one: Result,
    other: Result,
    kept: tuple[Contestant | None, Contestant | None],
    metrics: Sequence[str],
    task: TaskName,
) -> list[Evidence]:
    """Compare two results in some metrics, on the clean test split and, if both have results there, under corruption.

    Metrics that one of them lacks are left out, and so are single seeds without kept predictions.

    Args:
        one: The first.
        other: The second.
        kept: Their kept predictions, if they have them.
        metrics: Names of metrics.
        task: Decides their directions.
    """
    paired = _paired(kept, [name for name in metrics if name in SAMPLE_METRICS[task]])
    found = []
    places: tuple[Tested, ...] = ("test", "shift")
    for where in places:
        for name in metrics:
            if where == "test" and name in paired:
                samples = len(kept[0].runs[0].test.targets) if kept[0] else 0
                found.append(_of_samples(paired[name], one, other, samples))
            elif (item := _over_seeds(one, other, name, task, where)) is not None:
                found.append(item)
    return found


def corrected(families: Mapping[Rival, Sequence[Evidence]]) -> dict[Rival, list[Evidence]]:
    """Correct the p-values of comparisons made together, by Holm's method.

    Args:
        families: The comparisons by rival.

    Example:
        >>> item = Evidence("nll", "test", -0.1, -0.2, -0.01, 0.03, 0.01, True, (2, 2), 100)
        >>> [one.p for one in corrected({"a": [item], "b": [replace(item, p=0.5)]})["a"]]
        [0.06]
    """
    every = [(rival, place, item.p) for rival, items in families.items() for place, item in enumerate(items)]
    result, highest = {rival: list(items) for rival, items in families.items()}, 0.0
    for rank, (rival, place, p) in enumerate(sorted(every, key=lambda entry: entry[2])):
        highest = max(highest, min(1.0, p * (len(every) - rank)))
        result[rival][place] = replace(result[rival][place], p=highest)
    return result


def _paired(kept: tuple[Contestant | None, Contestant | None], metrics: Sequence[str]) -> dict[str, Difference]:
    """Compare sample by sample, if both have kept their predictions for the same samples."""
    one, other = kept
    if one is None or other is None or not metrics:
        return {}
    try:
        return {item.metric: item for item in compare_samples(one, other, metrics)}
    except SaeError:  # their samples differ
        return {}


def _of_samples(item: Difference, one: Result, other: Result, samples: int) -> Evidence:
    return Evidence(
        item.metric,
        "test",
        item.value,
        item.low,
        item.high,
        item.p,
        margin_of(item.metric, item.task, item.other),
        is_lower_better(item.metric, item.task),
        (len(one.runs), len(other.runs)),
        samples,
        (not one.failed, not other.failed),
    )


def _over_seeds(one: Result, other: Result, name: str, task: str, where: Tested) -> Evidence | None:
    """Compare the means over seeds; None if one of them has a single seed, or was not measured."""
    own, others = (_sample(item, name, where) for item in (one, other))
    if own is None or others is None:
        return None
    difference = welch_interval(own, others)
    return Evidence(
        name,
        where,
        own.mean - others.mean,
        difference.low,
        difference.high,
        difference.p,
        margin_of(name, task, others.mean),
        is_lower_better(name, task),
        (own.count, others.count),
        None,
        (_is_whole(one, one.get(name, where)), _is_whole(other, other.get(name, where))),
    )


def _sample(item: Result, name: str, where: Tested) -> Sample | None:
    spread = item.get(name, where)
    if spread is None or spread.std is None:
        return None
    return Sample(spread.mean, spread.std, len(item.shifted if where == "shift" else item.runs) - spread.left_out)


def _is_whole(item: Result, spread: Spread | None) -> bool:
    """Return whether all seeds gave a finite number."""
    return not item.failed and spread is not None and not spread.left_out
