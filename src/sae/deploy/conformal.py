"""Split conformal prediction: sets and intervals that hold the truth as often as they promise.

Scores say how far a prediction is from the truth: 1 − p of the true class, or |y − mean| / std.
A new sample's score is below the ⌈(n + 1)·coverage⌉-th smallest of n held-out ones with at least
that probability, if it comes from where they come from. All of it is numpy: a shipped model answers
any coverage from the order statistics that its manifest keeps.
"""

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, model_validator

from sae.core.errors import ConfigError
from sae.data.dataset import Split

Array = NDArray[Any]
MOST_KEPT = 200
"""Order statistics that are kept of the scores; of more, evenly spaced ones: a set is then a little too large."""
TRIED_COVERAGE = 0.9


class Calibration(BaseModel):
    """What is kept of the scores of held-out samples.

    Attributes:
        score: What the scores are: 1 − p of the true class, or the error in standard deviations.
        samples: How many samples there were.
        ranks: Which of their sorted scores are kept, counted from 1; the last is the largest.
        scores: Those.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    score: Literal["one_minus_probability", "standardised_error"]
    samples: int
    ranks: tuple[int, ...]
    scores: tuple[float, ...]

    @model_validator(mode="after")
    def _is_whole(self) -> "Calibration":
        if len(self.ranks) != len(self.scores) or not self.ranks or self.ranks[-1] != self.samples:
            raise ValueError("must have one score for each rank, up to the last sample")
        return self

    def threshold(self, coverage: float) -> float:
        """The score up to which an answer belongs into the set or interval.

        Example:
            >>> calibrate(np.arange(1.0, 10.0), "standardised_error").threshold(0.9)
            9.0
        """
        if not 0 < coverage < 1:
            raise ConfigError(f"the coverage must be above 0 and below 1, got {coverage}")
        rank = math.ceil(round((self.samples + 1) * coverage, 9))  # 10 · 0.9 is not quite 9
        if rank > self.samples:
            needed = math.ceil(coverage / (1 - coverage) - 1e-9)
            raise ConfigError(
                f"a coverage of {coverage} needs at least {needed} validation samples to calibrate on, "
                f"however this model has {self.samples}: ask for less"
            )
        return self.scores[int(np.searchsorted(self.ranks, rank))]


class ConformalPart(BaseModel):
    """The calibration of sets or intervals, and how one of them did on test data.

    Attributes:
        calibration: Of validation samples.
        tried: The coverage that was tried.
        test_coverage: How many of the test samples' truths it then held.
        test_size: Mean number of classes in a set, or mean width of an interval.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    calibration: Calibration
    tried: float
    test_coverage: float
    test_size: float


def calibrate(scores: Array, score: Literal["one_minus_probability", "standardised_error"]) -> Calibration:
    """What to keep of held-out scores, (sample,)."""
    ordered = np.sort(scores.astype(np.float64))
    count = len(ordered)
    ranks = np.unique(np.ceil(np.linspace(0, count, min(count, MOST_KEPT) + 1)[1:]).astype(int))
    return Calibration(
        score=score, samples=count, ranks=tuple(ranks.tolist()), scores=tuple(ordered[ranks - 1].tolist())
    )


def class_scores(probs: Array, labels: Array) -> Array:
    """1 − p of the true class, (batch,)."""
    scores: Array = 1.0 - probs.astype(np.float64)[np.arange(len(labels)), labels]
    return scores


def value_scores(mean: Array, variance: Array, targets: Array) -> Array:
    """|y − mean| / std, (batch,)."""
    scores: Array = np.abs(targets.astype(np.float64) - mean) / np.sqrt(variance.astype(np.float64))
    return scores


def class_sets(probs: Array, threshold: float) -> Array:
    """Which classes belong to the set of each sample, (batch, class); the most probable one always does."""
    chosen: Array = 1.0 - probs.astype(np.float64) <= threshold
    chosen[np.arange(len(probs)), probs.argmax(axis=1)] = True
    return chosen


def intervals(mean: Array, variance: Array, threshold: float) -> tuple[Array, Array]:
    """Lower and upper ends, (batch,) each."""
    half = threshold * np.sqrt(variance.astype(np.float64))
    return mean - half, mean + half


def conformal_part(val_outputs: dict[str, Any], val: Split, test_outputs: dict[str, Any], test: Split) -> ConformalPart:
    """Calibrated on validation samples, tried on test samples."""
    is_classes = "probs" in val_outputs
    calibration = (
        calibrate(class_scores(val_outputs["probs"], val.targets), "one_minus_probability")
        if is_classes
        else calibrate(value_scores(val_outputs["mean"], val_outputs["variance"], val.targets), "standardised_error")
    )
    tried = min(TRIED_COVERAGE, len(val) / (len(val) + 1))
    threshold = calibration.threshold(tried)
    if is_classes:
        sets = class_sets(test_outputs["probs"], threshold)
        holds, sizes = sets[np.arange(len(test)), test.targets], sets.sum(axis=1)
    else:
        lower, upper = intervals(test_outputs["mean"], test_outputs["variance"], threshold)
        holds, sizes = (lower <= test.targets) & (test.targets <= upper), upper - lower
    return ConformalPart(
        calibration=calibration, tried=tried, test_coverage=float(holds.mean()), test_size=float(sizes.mean())
    )
