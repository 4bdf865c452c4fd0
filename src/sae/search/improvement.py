"""Which point promises most: expected improvement of one random trade-off of several losses.

The paper searches with random scalarisations (Paria et al., 2020) as Syne Tune has them: a
Gaussian process per objective, and a random weighted sum of their lower confidence bounds. We
keep the process per objective and the random weights, but scalarise by the augmented
Tchebycheff norm of ParEGO (Knowles, 2006), because a weighted sum never asks for the hollow
parts of a front, and take the expected improvement, because it can be weighed by the
probability that constraints hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from sae.analysis.pareto import non_dominated
from sae.search.gaussian_process import GaussianProcess

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

AUGMENTATION = 0.05
"""Weight of the sum beside the maximum, as in ParEGO: of two points with one maximum the better is preferred."""
NUM_DRAWS = 64
"""Of what the objectives may be at a point, over which the improvement is averaged."""
SOFTNESS = 0.01
"""Of max(0, ·) in the improvement, in units of a front's range: tells points apart where none improves."""
WORST = 1e3
"""In units of a front's range: what is worse counts as this bad."""


def tchebycheff(losses: Floats, weights: Floats) -> Floats:
    """The augmented Tchebycheff norm of normalised losses.

    Args:
        losses: (…, objective), 0 for the best.
        weights: (objective,), non-negative.

    Returns:
        (…,), the less the better.
    """
    weighted = weights * losses
    return np.asarray(weighted.max(axis=-1) + AUGMENTATION * weighted.sum(axis=-1))


def normalise(losses: Floats, is_feasible: Bools) -> Floats:
    """Losses in units of their range over the front of the feasible trials, where 0 is the best.

    Outside of this range they are compressed by a logarithm, such that a few bad trials do not
    make all good ones look alike. Infinite losses count as the worst finite one, and an
    objective of which all values are equal becomes 0.

    Args:
        losses: (trial, objective), without NaN.
        is_feasible: (trial,); if none is, the front is that of all trials.
    """
    losses = clip_infinite(losses)
    eligible = losses[is_feasible] if is_feasible.any() else losses
    front = eligible[non_dominated(eligible)]
    extent, span = np.ptp(front, axis=0), np.ptp(losses, axis=0)
    extent = np.where(extent > 0, extent, np.where(span > 0, span, 1.0))  # a front may be a single point
    units = (losses - front.min(axis=0)) / extent
    beyond = 1 + np.log(np.clip(np.abs(units), 1, WORST))
    return np.asarray(np.where(np.abs(units) > 1, np.sign(units) * beyond, units))


def clip_infinite(values: Floats) -> Floats:
    """Infinite values as the largest or least finite one of their column, or 0 where there is none, (trial, column)."""
    is_finite = np.isfinite(values)
    low = np.where(is_finite, values, np.inf).min(axis=0)
    high = np.where(is_finite, values, -np.inf).max(axis=0)
    return np.where(is_finite.any(axis=0), np.clip(values, low, high), 0.0)


@dataclass(frozen=True)
class ExpectedImprovement:
    """How promising points are, for one weighting of the objectives.

    Attributes:
        objectives: A process per normalised loss.
        constraints: A process per constraint, which holds where it is ≤ 0.
        weights: Of the objectives, (objective,).
        best: The least scalarised loss of a feasible trial; None if no trial is feasible.
        draws: Standard normal numbers, (draw, objective).
    """

    objectives: Sequence[GaussianProcess]
    constraints: Sequence[GaussianProcess]
    weights: Floats
    best: float | None
    draws: Floats

    def log_scores(self, columns: Floats) -> Floats:
        """Log of improvement times probability that all constraints hold, (point,).

        Without a feasible trial there is nothing to improve on, and only the probability counts.
        """
        score = np.zeros(len(columns))
        for constraint in self.constraints:
            mean, std = constraint.predict(columns)
            score += log_ndtr(-mean / std)
        return score if self.best is None else score + self._log_improvement(columns, self.best)

    def _log_improvement(self, columns: Floats, best: float) -> Floats:
        mean, std = np.stack([process.predict(columns) for process in self.objectives], axis=-1)  # (point, objective)
        losses = tchebycheff(mean[:, None] + std[:, None] * self.draws, self.weights)  # (point, draw)
        gains = np.logaddexp(0, (best - losses) / SOFTNESS)  # a softened max(0, best − loss)
        return np.asarray(np.log(np.maximum(gains.mean(axis=1), np.finfo(float).tiny)))
