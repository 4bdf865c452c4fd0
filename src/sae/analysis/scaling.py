"""Temperature scaling of a configuration over its seeds: raw and scaled metrics, for every method alike.

Each run has its own temperature, fitted on its validation predictions by the one rule of `sae.analysis.temperature`.
A temperature that ran to its bound is not applied: the predictions stay as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sae.analysis.contestants import Contestant
from sae.analysis.curves import Curve, ReliabilityBin
from sae.analysis.sample_metrics import METRICS
from sae.analysis.statistics import Spread, spread_of
from sae.analysis.temperature import Temperature, fit_temperature, tempered
from sae.core.objectives import NUM_BINS, TaskName
from sae.records.predictions import Numbers

CHANGED: Mapping[TaskName, tuple[str, ...]] = {
    "classification": ("nll", "ece", "cc_ece", "brier"),
    "regression": ("nll",),
}
"""Metrics that a temperature changes; it never changes which class is the most probable."""


@dataclass(frozen=True)
class Scaling:
    """A configuration after temperature scaling.

    Attributes:
        temperatures: Of each run, as fitted.
        metrics: Test metrics after scaling, over seeds.
        reliability: Its reliability on the test split after scaling; None for regression.
    """

    temperatures: tuple[Temperature, ...]
    metrics: Mapping[str, Spread]
    reliability: Curve[ReliabilityBin] | None

    @property
    def applied(self) -> Spread:
        """The temperatures that were applied, over seeds."""
        found = spread_of(item.applied for item in self.temperatures)
        assert found is not None, "a temperature is finite"
        return found

    @property
    def num_samples(self) -> int:
        """Validation samples that each temperature was fitted on."""
        return self.temperatures[0].num_samples

    @property
    def num_bounded(self) -> int:
        """Runs whose temperature ran to its bound, and was not applied."""
        return sum(item.is_bounded for item in self.temperatures)

    @property
    def num_kept(self) -> int:
        """Runs whose temperature stayed 1, because cross-validation found no gain."""
        return sum(item.is_kept_at_one for item in self.temperatures)


def scale(kept: Contestant) -> Scaling:
    """Scale the test predictions of every run by a temperature fitted on its validation predictions."""
    task, fitted = kept.task, []
    scaled: list[tuple[Numbers, NDArray[np.number]]] = []
    for run, exits in zip(kept.runs, kept.eval_exits, strict=True):
        temperature = fit_temperature(task, run.val.readings[exits], run.val.targets)
        fitted.append(temperature)
        scaled.append((tempered(task, run.test.readings[exits], temperature.applied), run.test.targets))
    metrics = {
        name: spread
        for name in CHANGED[task]
        if (spread := spread_of(METRICS[task][name].value(*pair) for pair in scaled)) is not None
    }
    return Scaling(tuple(fitted), metrics, _reliability(scaled) if task == "classification" else None)


def _reliability(predictions: Sequence[tuple[Numbers, NDArray[np.number]]]) -> Curve[ReliabilityBin]:
    """Pool the samples of all seeds in bins (lo, hi] of their confidence."""
    confidence = np.concatenate([np.minimum(np.exp(numbers.max(axis=1)), 1.0) for numbers, _ in predictions])
    is_right = np.concatenate([numbers.argmax(axis=1) == targets for numbers, targets in predictions])
    bins = np.searchsorted(np.arange(1, NUM_BINS) / NUM_BINS, confidence)
    count = np.bincount(bins, minlength=NUM_BINS)
    sums = [np.bincount(bins, weights=values, minlength=NUM_BINS) for values in (confidence, is_right)]
    points = tuple(
        ReliabilityBin(
            index / NUM_BINS,
            (index + 1) / NUM_BINS,
            int(count[index]),
            *(float(total[index] / count[index]) if count[index] else None for total in sums),
        )
        for index in range(NUM_BINS)
    )
    return Curve(points, len(predictions), 0)
