"""Differences between two configurations on the same samples, with intervals over test samples and seeds.

Each resample of a paired bootstrap draws test samples with replacement, the same for all runs;
`sae.analysis.intervals` adds the choice of the seeds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from sae.analysis.contestants import Contestant, check_same_samples
from sae.analysis.intervals import Side, Values, combine
from sae.analysis.sample_metrics import joined, sample_metric
from sae.analysis.statistics import Verdict, is_lower_better, margin_of, verdict_of
from sae.core.objectives import TaskName

RESAMPLES = 1000
AT_ONCE = 128
"""Resamples that are drawn at once, to limit memory."""


@dataclass(frozen=True)
class Difference:
    """The difference of two configurations in a metric.

    Attributes:
        metric: Its name.
        task: Decides its direction.
        one: Mean over the seeds of the first, on all samples.
        other: The same for the second.
        low: Lower end of the interval of `one − other`.
        high: Upper end of the interval.
        p: The probability of such a difference between equals.
    """

    metric: str
    task: TaskName
    one: float
    other: float
    low: float
    high: float
    p: float = 1.0

    @property
    def value(self) -> float:
        """The difference, `one − other`."""
        return self.one - self.other

    @property
    def worst(self) -> float:
        """How much worse the first may be at most: one end of the interval, positive if worse."""
        return self.high if is_lower_better(self.metric, self.task) else -self.low

    @property
    def best(self) -> float:
        """How much worse the first is at least: the other end of the interval, negative if better."""
        return self.low if is_lower_better(self.metric, self.task) else -self.high

    @property
    def verdict(self) -> Verdict:
        """Better or worse if the interval excludes 0; otherwise no difference, or not enough evidence."""
        margin = margin_of(self.metric, self.task, self.other)
        is_significant = self.worst < 0 or self.best > 0
        return verdict_of(self.low, self.high, margin, is_significant=is_significant, is_better=self.worst < 0)

    def matches(self, margin: float) -> bool:
        """Return whether the first is worse by less than the margin, or better, at every value of the interval."""
        return self.worst < margin


def compare_samples(
    one: Contestant, other: Contestant, metrics: Sequence[str], resamples: int = RESAMPLES, seed: int = 0
) -> list[Difference]:
    """Compare two configurations on the same test samples.

    Temperatures are fitted once for each run on validation samples; they are part of the configuration, like weights.

    Args:
        one: The first configuration.
        other: The second.
        metrics: Names of metrics, with the suffix `_scaled` for metrics after temperature scaling.
        resamples: Number of resamples.
        seed: Seed of their choice.
    """
    check_same_samples([one, other])
    first, second = (draw_metrics(rival, metrics, resamples, seed) for rival in (one, other))
    return differences_of(one.task, first, second)


def draw_metrics(
    rival: Contestant, metrics: Sequence[str], resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Side]:
    """Return the metrics of a configuration's runs, on all test samples and on resamples of them.

    Args:
        rival: The configuration.
        metrics: Names of metrics, as in `compare_samples`.
        resamples: Number of resamples.
        seed: Seed of their choice; the same seed gives the same samples.
    """
    task, targets = rival.task, rival.runs[0].test.targets
    found = {name: sample_metric(name, task) for name in metrics}
    columns = {
        name: [metric.of_samples(numbers, targets) for numbers in rival.test_numbers(name)]
        for name, metric in found.items()
    }
    drawn = resampled_means([run for runs in columns.values() for run in runs], resamples, seed)
    return {
        name: Side(
            np.array([found[name].finish(np.asarray(run.mean(axis=0)).ravel()) for run in runs]),
            np.stack([found[name].finish(next(drawn)) for _ in runs], axis=1),
        )
        for name, runs in columns.items()
    }


def differences_of(task: TaskName, one: Mapping[str, Side], other: Mapping[str, Side]) -> list[Difference]:
    """Return the differences of two configurations in all metrics of the first, from the same resamples.

    Args:
        task: Decides the directions of the metrics.
        one: The metrics of the first, by name.
        other: Those of the second.
    """
    found = []
    for name, side in one.items():
        estimate = combine([side, other[name]], [1, -1])
        found.append(Difference(name, task, side.mean, other[name].mean, *estimate.interval, estimate.p))
    return found


def resampled_means(features: Sequence[csr_array], resamples: int, seed: int) -> Iterator[Values]:
    """Yield for each run the means of its features in every resample of the samples, (resample, feature).

    Args:
        features: Features of each run, (sample, feature), with the same samples in the same order.
        resamples: Number of resamples.
        seed: Seed of their choice.
    """
    everything = joined(features)
    count = everything.shape[0]
    means = np.concatenate([(everything.T @ counts.T).T for counts in resample_counts(count, resamples, seed)]) / count
    ends = np.cumsum([run.shape[1] for run in features])
    yield from np.split(means, ends[:-1], axis=1)


def resample_counts(count: int, resamples: int, seed: int) -> Iterator[Values]:
    """Yield how often each resample holds each of `count` samples, (resample, sample), some resamples at once."""
    generator = np.random.default_rng(seed)
    for start in range(0, resamples, AT_ONCE):
        size = min(AT_ONCE, resamples - start)
        drawn = generator.integers(0, count, (size, count)) + count * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count).astype(np.float64)
