"""Differences between two configurations on the same samples, with intervals by a paired bootstrap.

Each resample draws test samples with replacement, the same for all runs. It also draws as many seeds
as each configuration has, with replacement. So an interval covers the choice of the test samples and
of the seeds. With few seeds it is too narrow; with a single seed it covers the samples only.

Repeated samples make calibration errors larger. Resamples of a metric that is not a mean over samples
are therefore shifted, so that their mean is the difference on all samples.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sae.analysis.contestants import Contestant, check_same_samples
from sae.analysis.sample_metrics import joined, sample_metric
from sae.analysis.statistics import Verdict, is_lower_better, margin_of, verdict_of
from sae.core.objectives import TaskName

RESAMPLES = 1000
CONFIDENCE = 0.95
"""Share of the resamples within an interval."""
AT_ONCE = 128
"""Resamples that are drawn at once, to limit memory."""
Values = NDArray[np.float64]


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
        p: The probability of such a difference between equals: twice the share of resamples beyond 0.
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
    return differences_of(first, second, seed)


@dataclass(frozen=True)
class Drawn:
    """Metrics of a configuration, in resamples of the test samples that are the same for every configuration.

    Attributes:
        task: Decides the directions of the metrics.
        values: Values by metric, (resample, run).
        points: The mean over the runs on all samples, by metric.
    """

    task: TaskName
    values: Mapping[str, Values]
    points: Mapping[str, float]


def draw_metrics(rival: Contestant, metrics: Sequence[str], resamples: int = RESAMPLES, seed: int = 0) -> Drawn:
    """Resample the test samples of a configuration, once for all comparisons.

    Args:
        rival: The configuration.
        metrics: Names of metrics, as in `compare_samples`.
        resamples: Number of resamples.
        seed: Seed of their choice; the same seed gives the same samples.
    """
    task, targets = rival.task, rival.runs[0].test.targets
    found = {name: sample_metric(name, task) for name in metrics}
    columns = {
        name: [metric.features(numbers, targets) for numbers in rival.test_numbers(name)]
        for name, metric in found.items()
    }
    drawn = resampled_means([run for runs in columns.values() for run in runs], resamples, seed)
    values = {name: np.stack([found[name].finish(next(drawn)) for _ in runs], axis=1) for name, runs in columns.items()}
    points = {
        name: float(np.mean([found[name].finish(np.asarray(run.mean(axis=0)).ravel()) for run in runs]))
        for name, runs in columns.items()
    }
    return Drawn(task, values, points)


def differences_of(one: Drawn, other: Drawn, seed: int = 0) -> list[Difference]:
    """Return the differences of two configurations with the same resamples; their seeds are drawn here.

    Args:
        one: The first.
        other: The second, with the same metrics.
        seed: Seed of the choice of their runs.
    """
    found = []
    for name, values in one.values.items():
        sides = []
        for place, drawn in enumerate((values, other.values[name])):
            seeds = chosen_seeds(drawn.shape[1], len(drawn), seed + 1 + place)
            sides.append(np.take_along_axis(drawn, seeds, axis=1).mean(axis=1))
        differences, points = sides[0] - sides[1], (one.points[name], other.points[name])
        is_mean = sample_metric(name, one.task).is_mean
        bias = 0.0 if is_mean else float(differences.mean()) - (points[0] - points[1])
        centred = differences - bias
        found.append(Difference(name, one.task, *points, *interval(centred), p_value(centred)))
    return found


def resampled_means(features: Sequence[csr_array], resamples: int, seed: int) -> Iterator[Values]:
    """Yield for each run the means of its features in every resample of the samples, (resample, feature).

    Args:
        features: Features of each run, (sample, feature), with the same samples in the same order.
        resamples: Number of resamples.
        seed: Seed of their choice.
    """
    everything = joined(features)
    count, generator = everything.shape[0], np.random.default_rng(seed)
    means = np.empty((resamples, everything.shape[1]))
    for start in range(0, resamples, AT_ONCE):
        size = min(AT_ONCE, resamples - start)
        drawn = generator.integers(0, count, (size, count)) + count * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count)
        means[start : start + size] = (everything.T @ counts.T.astype(np.float64)).T / count
    ends = np.cumsum([run.shape[1] for run in features])
    yield from np.split(means, ends[:-1], axis=1)


def chosen_seeds(count: int, resamples: int, seed: int) -> NDArray[np.int64]:
    """Return the runs that each resample takes, (resample, run)."""
    return np.random.default_rng(seed).integers(0, count, (resamples, count))


def interval(values: Values) -> tuple[float, float]:
    """Return the bounds between which 95 % of the resamples lie; they may be infinite."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail], method="inverted_cdf")
    return float(low), float(high)


def p_value(values: Values) -> float:
    """Return twice the smaller share of resamples on one side of 0; 0 itself counts on both, and one resample is added.

    Example:
        >>> p_value(np.array([-1.0, 1.0, 2.0, 3.0])), p_value(np.zeros(9))
        (0.8, 1.0)
    """
    below, above = int((values <= 0).sum()), int((values >= 0).sum())
    return min(1.0, 2 * (1 + min(below, above)) / (len(values) + 1))
