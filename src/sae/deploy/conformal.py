"""Split conformal prediction: sets and intervals that contain the truth with a promised probability. No torch.

A score is the distance of a prediction from the truth: 1 − p of the true class, or |y − mean| / std.
If a new sample comes from the same distribution as n held-out ones, its score is at most their
⌈(n + 1)·coverage⌉-th smallest with at least that probability. The manifest keeps order statistics
of the held-out scores, so that a shipped model can give sets for any coverage.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, model_validator

from sae.core.errors import ConfigError

Score = Literal["one_minus_probability", "standardised_error"]
Values = NDArray[np.float64]
Outputs = Mapping[str, NDArray[np.floating]]

MOST_KEPT = 200
"""Order statistics to keep. If there are more scores, evenly spaced ones are kept and sets grow a little."""
TRIED_COVERAGE = 0.9
ROUNDING = 1e-4
"""How far a score may be below 0, because a probability was rounded to a little above 1."""


class ConformalScores(BaseModel):
    """Order statistics of the scores of held-out samples.

    Attributes:
        score: The kind of score: 1 − p of the true class, or the error in standard deviations.
        samples: Number of held-out samples.
        ranks: Ranks of the scores that are kept, counted from 1. The last is the largest score.
        scores: The scores at these ranks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    score: Score
    samples: int
    ranks: tuple[int, ...]
    scores: tuple[float, ...]

    @model_validator(mode="after")
    def _is_complete(self) -> "ConformalScores":
        if len(self.ranks) != len(self.scores) or not self.ranks or self.ranks[-1] != self.samples:
            raise ValueError("must have one score for each rank, up to the last sample")
        if any(rank >= later for rank, later in pairwise((0, *self.ranks))):
            raise ValueError("must have ranks that rise from 1")
        if any(score > later for score, later in pairwise((-ROUNDING, *self.scores))):
            raise ValueError("must have scores from 0 that rise with their ranks")
        return self

    def threshold(self, coverage: float) -> float:
        """Return the largest score that is still in the set or interval.

        Example:
            >>> keep_scores(np.arange(1.0, 10.0), "standardised_error").threshold(0.9)
            9.0
        """
        if not 0 < coverage < 1:
            raise ConfigError(f"the coverage must be above 0 and below 1, got {coverage}")
        rank = math.ceil(round((self.samples + 1) * coverage, 9))  # in floats, 10 · 0.9 is not exactly 9
        if rank > self.samples:
            needed = math.ceil(coverage / (1 - coverage) - 1e-9)
            raise ConfigError(
                f"a coverage of {coverage} needs at least {needed} validation samples, this model has {self.samples}: "
                f"ask for a lower coverage"
            )
        return self.scores[int(np.searchsorted(self.ranks, rank))]


class ConformalPart(BaseModel):
    """The scores behind sets or intervals, and the result of one coverage on test data; None without test data.

    Attributes:
        calibration: Scores of validation samples.
        tried: The coverage that was tried.
        test_coverage: Share of the test samples whose truth was in the set or interval.
        test_size: Mean number of classes in a set, or mean width of an interval.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    calibration: ConformalScores
    tried: float | None
    test_coverage: float | None
    test_size: float | None


def keep_scores(scores: Values, score: Score) -> ConformalScores:
    """Reduce held-out scores, (sample,), to the order statistics that are kept."""
    ordered = np.sort(scores.astype(np.float64))
    count = len(ordered)
    ranks = np.unique(np.ceil(np.linspace(0, count, min(count, MOST_KEPT) + 1)[1:]).astype(int))
    return ConformalScores(
        score=score, samples=count, ranks=tuple(ranks.tolist()), scores=tuple(ordered[ranks - 1].tolist())
    )


def class_scores(probs: NDArray[np.floating], labels: NDArray[np.number]) -> Values:
    """Return 1 − p of the true class, (batch,)."""
    scores: Values = 1.0 - probs.astype(np.float64)[np.arange(len(labels)), labels.astype(np.int64)]
    return scores


def value_scores(mean: NDArray[np.floating], variance: NDArray[np.floating], targets: NDArray[np.number]) -> Values:
    """Return |y − mean| / std, (batch,); of several targets the largest, so that all are promised together."""
    scores: Values = np.abs(targets.astype(np.float64) - mean) / np.sqrt(variance.astype(np.float64))
    return scores if scores.ndim == 1 else scores.max(axis=1)


def class_sets(probs: NDArray[np.floating], threshold: float) -> NDArray[np.bool_]:
    """Return which classes are in the set of each sample, (batch, class); the most probable one always is.

    Without probabilities that are finite, a set is empty.
    """
    chosen: NDArray[np.bool_] = 1.0 - probs.astype(np.float64) <= threshold
    rows = np.flatnonzero(np.isfinite(probs).all(axis=1))
    chosen[rows, probs[rows].argmax(axis=1)] = True
    return chosen


def intervals(mean: NDArray[np.floating], variance: NDArray[np.floating], threshold: float) -> tuple[Values, Values]:
    """Return the lower and upper ends, (batch[, target]) each."""
    half = threshold * np.sqrt(variance.astype(np.float64))
    return mean - half, mean + half


def conformal_sets(
    val: Outputs, val_labels: NDArray[np.number], test: Outputs, test_labels: NDArray[np.number]
) -> ConformalPart:
    """Keep the scores of validation samples, and try sets of classes on test samples."""
    kept = keep_scores(class_scores(val["probs"], val_labels), "one_minus_probability")
    tried = _tried_coverage(kept)
    sets = class_sets(test["probs"], kept.threshold(tried))
    return _part(
        kept, tried, sets[np.arange(len(sets)), test_labels.astype(np.int64)], sets.sum(axis=1, dtype=np.float64)
    )


def conformal_intervals(
    val: Outputs,
    val_values: NDArray[np.number],
    test: Outputs,
    test_values: NDArray[np.number],
    smallest: float = -math.inf,
) -> ConformalPart:
    """Keep the scores of validation samples, and try intervals of values, from `smallest` on, on test samples."""
    kept = keep_scores(value_scores(val["mean"], val["variance"], val_values), "standardised_error")
    tried = _tried_coverage(kept)
    lower, upper = intervals(test["mean"], test["variance"], kept.threshold(tried))
    lower = np.maximum(lower, smallest)
    unit = test_values.std(axis=0) if test_values.ndim == 2 else 1.0  # of several, so that widths can be averaged
    inside = np.asarray((lower <= test_values) & (test_values <= upper))
    return _part(kept, tried, are_all(inside), (upper - lower) / unit)


def are_all(holds: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether something holds for all targets of each sample, (batch,), given (batch[, target])."""
    return np.asarray(holds.all(axis=tuple(range(1, holds.ndim))))


def _tried_coverage(kept: ConformalScores) -> float:
    return min(TRIED_COVERAGE, kept.samples / (kept.samples + 1))


def _part(kept: ConformalScores, tried: float, holds: NDArray[np.bool_], sizes: Values) -> ConformalPart:
    return ConformalPart(
        calibration=kept, tried=tried, test_coverage=float(holds.mean()), test_size=float(sizes.mean())
    )
