"""Which point promises most: expected improvement of one random trade-off of several losses.

The paper searches with random scalarisations (Paria et al., 2020) as Syne Tune has them: a
Gaussian process per objective, and a random weighted sum of their lower confidence bounds. We
keep the process per objective and the random weights, but scalarise by the augmented
Tchebycheff norm of ParEGO (Knowles, 2006), because a weighted sum never asks for the hollow
parts of a front, and take the expected improvement, because it can be weighed by the
probability that constraints hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from scipy.special import log_ndtr

from sae.analysis.pareto import non_dominated
from sae.core.seeds import derive_seed
from sae.search.samplers.gaussian_process import GaussianProcess, fit
from sae.search.samplers.unit_cube import UnitCube

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


Indices = NDArray[np.intp]

NUM_RANDOM, NUM_STARTS, NUM_AROUND = 500, 5, 40
"""Random candidates; the best of all, around which others are drawn; how many around each."""
RADII = (0.1, 0.05, 0.02, 0.01)
"""How far around, in turn."""


class ScalarizedSampler(BaseSampler):
    """Asks for the point that promises most for a random trade-off of the objectives.

    Parameters that trials have in common are suggested together. Constraints set by
    `Trial.set_constraint` steer; points of running trials count as seen to be what they are
    believed to be; failed and pruned trials are ignored. Points of complete and running trials
    are not suggested again while there is another candidate.

    Nothing is kept between suggestions: each depends on the seed, the number of the trial and
    the history of the study alone.

    Args:
        seed: Of all that is random.
        num_startup: Complete trials before which suggestions are random.
    """

    def __init__(self, seed: int, num_startup: int) -> None:
        self.seed = seed
        self.num_startup = num_startup

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002
        """The parameters that all complete trials have, but for those of a single value."""
        space = IntersectionSearchSpace().calculate(study)
        return {name: distribution for name, distribution in space.items() if not distribution.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The next configuration to try."""
        if not search_space:
            return {}
        rng = np.random.default_rng(derive_seed(self.seed, "suggest", trial.number))
        cube = UnitCube(search_space)
        complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        seen = cube.encode([other.params for other in complete])
        awaited = cube.encode([other.params for other in running if _covers(other, search_space)])
        taken = np.concatenate([seen, awaited])
        if len(complete) < self.num_startup:
            candidates = cube.draw(NUM_RANDOM, rng)
            return cube.decode(candidates[np.argmax(~_are_among(candidates, taken))])
        improvement, ranking = _model(study, complete, cube.columns(seen), cube.columns(awaited), rng)
        return cube.decode(_most_promising(improvement, cube, seen[ranking[:NUM_STARTS]], taken, rng))

    def sample_independent(
        self,
        study: Study,  # noqa: ARG002
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A random value for a parameter that not all trials have."""
        rng = np.random.default_rng(derive_seed(self.seed, "independent", trial.number, param_name))
        cube = UnitCube({param_name: param_distribution})
        return cube.decode(cube.draw(1, rng)[0])[param_name]


def _covers(trial: FrozenTrial, space: Mapping[str, BaseDistribution]) -> bool:
    """Whether a trial, which may be half suggested, has a value for every parameter."""
    return all(trial.distributions.get(name) == distribution for name, distribution in space.items())


def _model(
    study: Study, complete: Sequence[FrozenTrial], seen: Floats, awaited: Floats, rng: np.random.Generator
) -> tuple[ExpectedImprovement, Indices]:
    """What the trials tell about objectives and constraints, and their numbers from the best to the worst, (trial,).

    Args:
        study: Says which objectives are to be minimised.
        complete: Its complete trials.
        seen: Their columns, (trial, column).
        awaited: Columns of the running trials, (running trial, column).
        rng: Where randomness comes from.
    """
    signs = [1.0 if direction == StudyDirection.MINIMIZE else -1.0 for direction in study.directions]
    violations = np.array([sum(max(value, 0.0) for value in trial.constraints.values()) for trial in complete])
    is_feasible = violations == 0
    losses = normalise(np.array([trial.values for trial in complete]) * signs, is_feasible)
    weights = rng.dirichlet(np.ones(len(signs)))  # uniform on the simplex
    scalarised = tchebycheff(losses, weights)
    improvement = ExpectedImprovement(
        objectives=[fit(seen, loss).with_believed(awaited) for loss in losses.T],
        constraints=[process.with_believed(awaited) for process in _constraints(complete, seen)],
        weights=weights,
        best=float(scalarised[is_feasible].min()) if is_feasible.any() else None,
        draws=rng.standard_normal((NUM_DRAWS, len(signs))),
    )
    return improvement, np.lexsort((scalarised, violations))


def _constraints(complete: Sequence[FrozenTrial], seen: Floats) -> list[GaussianProcess]:
    """A process per constraint, of the trials that tell its value."""
    processes = []
    for name in sorted({name for trial in complete for name in trial.constraints}):
        is_told = np.array([name in trial.constraints for trial in complete])
        values = np.array([[trial.constraints[name]] for trial in complete if name in trial.constraints])
        processes.append(fit(seen[is_told], clip_infinite(values)[:, 0]))
    return processes


def _most_promising(
    improvement: ExpectedImprovement, cube: UnitCube, starts: Floats, taken: Floats, rng: np.random.Generator
) -> Floats:
    """The best of random points and of points ever closer around the best so far, (parameter,).

    Args:
        improvement: What is maximised.
        cube: The space.
        starts: Points of the best trials, (trial, parameter).
        taken: Points that are not to be suggested again, (trial, parameter).
        rng: Where randomness comes from.
    """

    def scores_of(points: Floats) -> Floats:
        return np.where(_are_among(points, taken), -np.inf, improvement.log_scores(cube.columns(points)))

    points = np.concatenate([cube.draw(NUM_RANDOM, rng), cube.vary(starts, NUM_AROUND, RADII[0], rng)])
    scores = scores_of(points)
    for radius in RADII:
        top = np.argsort(-scores, kind="stable")[:NUM_STARTS]
        around = cube.vary(points[top], NUM_AROUND, radius, rng)
        points = np.concatenate([points[top], around])
        scores = np.concatenate([scores[top], scores_of(around)])
    best: Floats = points[np.argmax(scores)]
    return best


def _are_among(points: Floats, taken: Floats) -> Bools:
    """Which points are taken, (point,)."""
    keys = set(map(tuple, taken.round(9).tolist()))
    return np.array([tuple(row) in keys for row in points.round(9).tolist()])
