"""A sampler of Optuna for many objectives that takes some hundredths of a second for each.

Beyond three objectives the exact hypervolumes of Optuna's own Gaussian process sampler take
longer than training a small network does; see docs/benchmarks.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sae.core.seeds import derive_seed
from sae.search.gaussian_process import GaussianProcess, fit
from sae.search.improvement import (
    NUM_DRAWS,
    Bools,
    ExpectedImprovement,
    Floats,
    clip_infinite,
    normalise,
    tchebycheff,
)
from sae.search.unit_cube import UnitCube

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
