"""A fast sampler for many objectives: expected improvement of random trade-offs.

Beyond three objectives the exact hypervolumes of Optuna's own Gaussian process sampler take
longer than training a small network; see docs/benchmarks.md. This one takes a few hundredths of
a second per objective.

The paper searches with random scalarisations (Paria et al., 2020) as implemented in Syne Tune: a
Gaussian process per objective, and a random weighted sum of their lower confidence bounds. We
keep the process per objective and the random weights, with two changes. We scalarise by the
augmented Tchebycheff norm of ParEGO (Knowles, 2006), because a weighted sum never finds the
concave parts of a front. And we take the expected improvement, because it can be multiplied by
the probability that constraints hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from scipy.special import log_ndtr

from sae.analysis.pareto import non_dominated
from sae.config.study import Value
from sae.core.seeds import derive_seed
from sae.search.samplers.gaussian_process import GaussianProcess, fit
from sae.search.samplers.modelled import MOST_MODELLED, losses_and_violations, modelled_trials
from sae.search.samplers.unit_cube import UnitCube

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]

NUM_RANDOM, NUM_STARTS, NUM_AROUND = 500, 5, 40
"""Number of random candidates, of the best among them, and of new candidates near each of these."""
RADII = (0.1, 0.05, 0.02, 0.01)
"""Radius of the draws in each round."""
AUGMENTATION = 0.05
"""Weight of the sum added to the maximum, as in ParEGO: it decides between points with the same maximum."""
NUM_DRAWS = 64
"""Draws from the posterior at a point, over which the improvement is averaged."""
SOFTNESS = 0.01
"""Smoothing of max(0, ·) in the improvement, in units of the front's range: it ranks points that do not improve."""
WORST = 1e3
"""Losses are cut off at this many times the front's range."""


def tchebycheff(losses: Floats, weights: Floats) -> Floats:
    """Return the augmented Tchebycheff norm of normalised losses.

    Args:
        losses: (…, objective), 0 for the best.
        weights: (objective,), non-negative.

    Returns:
        (…,), lower is better.
    """
    weighted = weights * losses
    return np.asarray(weighted.max(axis=-1) + AUGMENTATION * weighted.sum(axis=-1))


def normalise(losses: Floats, is_feasible: Bools) -> Floats:
    """Scale losses to their range over the front of the feasible trials, where 0 is the best.

    Losses outside this range are compressed by a logarithm, so that a few bad trials do not
    make all good ones look alike. Infinite losses become the worst finite one. An objective
    with equal values becomes 0.

    Args:
        losses: (trial, objective), without NaN.
        is_feasible: (trial,); without a feasible trial the front of all trials is used.
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
    """Replace infinite values by the largest or smallest finite one of their column, or by 0, (trial, column)."""
    is_finite = np.isfinite(values)
    low = np.where(is_finite, values, np.inf).min(axis=0)
    high = np.where(is_finite, values, -np.inf).max(axis=0)
    return np.where(is_finite.any(axis=0), np.clip(values, low, high), 0.0)


@dataclass(frozen=True)
class ExpectedImprovement:
    """Expected improvement of points for one weighting of the objectives.

    Attributes:
        objectives: One process per normalised loss.
        constraints: One process per constraint; a constraint holds where its value is ≤ 0.
        weights: Weights of the objectives, (objective,).
        best: The smallest scalarised loss of a feasible trial; None without a feasible trial.
        draws: Standard normal numbers, (draw, objective).
    """

    objectives: Sequence[GaussianProcess]
    constraints: Sequence[GaussianProcess]
    weights: Floats
    best: float | None
    draws: Floats

    def log_scores(self, columns: Floats) -> Floats:
        """Return the log of improvement times probability that all constraints hold, (point,).

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


class ScalarizedSampler(BaseSampler):
    """A sampler of Optuna that suggests the most promising point for a random trade-off of the objectives.

    Parameters that all trials share are suggested together. Constraints that were set by
    `Trial.set_constraint` are taken into account. A running trial counts as if it had given its
    predicted values. Failed and pruned trials are ignored. Points of complete and running trials
    are not suggested again while there is another candidate.

    The sampler keeps no state: a suggestion depends only on the seed, the number of the trial and
    the history of the study.

    Args:
        seed: Seed of all randomness.
        num_startup: Suggestions are random until this many trials are complete.
        most: Most complete trials to fit the models to; see `modelled_trials`.
    """

    def __init__(self, seed: int, num_startup: int, most: int = MOST_MODELLED) -> None:
        self.seed = seed
        self.num_startup = num_startup
        self.most = most

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:  # noqa: ARG002
        """Return the parameters that all complete trials share, without those that have a single value."""
        space = IntersectionSearchSpace().calculate(study)
        return {name: distribution for name, distribution in space.items() if not distribution.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Value]:
        """Return the next configuration to try."""
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
        improvement, ranking = _model(study, complete, cube.columns(seen), cube.columns(awaited), rng, self.most)
        return cube.decode(_most_promising(improvement, cube, seen[ranking[:NUM_STARTS]], taken, rng))

    def sample_independent(
        self,
        study: Study,  # noqa: ARG002
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Value:
        """Draw a random value for a parameter that not all trials share."""
        rng = np.random.default_rng(derive_seed(self.seed, "independent", trial.number, param_name))
        cube = UnitCube({param_name: param_distribution})
        return cube.decode(cube.draw(1, rng)[0])[param_name]


def _covers(trial: FrozenTrial, space: Mapping[str, BaseDistribution]) -> bool:
    """Return whether a trial has a value for every parameter; a running trial may not have all of them yet."""
    return all(trial.distributions.get(name) == distribution for name, distribution in space.items())


def _model(
    study: Study, complete: Sequence[FrozenTrial], seen: Floats, awaited: Floats, rng: np.random.Generator, most: int
) -> tuple[ExpectedImprovement, Indices]:
    """Fit models of objectives and constraints, and sort the trials from best to worst, (trial,).

    Args:
        study: The study; it knows which objectives are minimised.
        complete: Its complete trials.
        seen: Features of the complete trials, (trial, column).
        awaited: Features of the running trials, (running trial, column).
        rng: The source of randomness.
        most: Complete trials that the models are fitted to.
    """
    raw, violations = losses_and_violations(complete, study.directions)
    is_feasible, num_objectives = violations == 0, raw.shape[1]
    losses = normalise(raw, is_feasible)
    weights = rng.dirichlet(np.ones(num_objectives))  # uniform on the simplex
    scalarised = tchebycheff(losses, weights)
    ranking = np.lexsort((scalarised, violations))
    kept = modelled_trials(ranking, most)
    constrained = _constraints([complete[index] for index in kept], seen[kept])
    improvement = ExpectedImprovement(
        objectives=[fit(seen[kept], loss[kept]).with_believed(awaited) for loss in losses.T],
        constraints=[process.with_believed(awaited) for process in constrained],
        weights=weights,
        best=float(scalarised[is_feasible].min()) if is_feasible.any() else None,
        draws=rng.standard_normal((NUM_DRAWS, num_objectives)),
    )
    return improvement, ranking


def _constraints(complete: Sequence[FrozenTrial], seen: Floats) -> list[GaussianProcess]:
    """Fit a process to each constraint, over the trials that have a value for it."""
    processes = []
    for name in sorted({name for trial in complete for name in trial.constraints}):
        has_value = np.array([name in trial.constraints for trial in complete])
        values = np.array([[trial.constraints[name]] for trial in complete if name in trial.constraints])
        processes.append(fit(seen[has_value], clip_infinite(values)[:, 0]))
    return processes


def _most_promising(
    improvement: ExpectedImprovement, cube: UnitCube, starts: Floats, taken: Floats, rng: np.random.Generator
) -> Floats:
    """Search for the best point, first at random and then closer and closer to the best points so far, (parameter,).

    Args:
        improvement: The score to maximise.
        cube: The space.
        starts: Points of the best trials, (trial, parameter).
        taken: Points that must not be suggested again, (trial, parameter).
        rng: The source of randomness.
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
    """Return which points are taken, (point,)."""
    keys = set(map(tuple, taken.round(9).tolist()))
    return np.array([tuple(row) in keys for row in points.round(9).tolist()])
