"""A choice of trials to fit a model to in a long study: beyond a few hundred, more trials cost more than they help."""

from collections.abc import Container, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import GPSampler
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sae.analysis.pareto import non_dominated, normalised
from sae.config.study import Value

MOST_MODELLED = 300
"""Trials that a model is fitted to; the time grows with the square to the cube of their number."""

Indices = NDArray[np.intp]


def modelled_trials(ranking: Indices, most: int = MOST_MODELLED) -> Indices:
    """Return the trials to fit a model to, in order: half are the best, a quarter the latest, a quarter random.

    The best show where to look closer, the latest prevent the search from repeating itself, and the random ones keep
    the model accurate elsewhere. The choice depends only on the arguments.

    Args:
        ranking: All trials from best to worst, (trial,).
        most: How many to return; fewer trials are all returned.

    Example:
        >>> modelled_trials(np.array([3, 0, 2, 1])).tolist(), len(modelled_trials(np.arange(1000), 40))
        ([0, 1, 2, 3], 40)
    """
    number = len(ranking)
    if number <= most:
        return np.arange(number, dtype=np.intp)
    first = np.concatenate([ranking[: most // 2], np.arange(number - most // 4, number, dtype=np.intp)])
    rest = np.setdiff1d(ranking, first)
    drawn = np.random.default_rng(number).choice(rest, most - len(np.unique(first)), replace=False)
    return np.union1d(first, drawn)


def rank_trials(trials: list[FrozenTrial], directions: list[StudyDirection]) -> Indices:
    """Return complete trials from best to worst, (trial,): the feasible front first, then by their mean scaled loss."""
    losses, violations = losses_and_violations(trials, directions)
    is_feasible = violations == 0
    is_best = np.zeros(len(trials), dtype=bool)
    is_best[is_feasible] = non_dominated(losses[is_feasible])
    return np.lexsort((normalised(losses).mean(axis=1), violations, ~is_best))


def losses_and_violations(
    trials: Sequence[FrozenTrial], directions: Sequence[StudyDirection]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the losses of complete trials, (trial, objective), and the sum of their violated constraints, (trial,)."""
    signs = [1.0 if direction == StudyDirection.MINIMIZE else -1.0 for direction in directions]
    violations = [sum(max(value, 0.0) for value in trial.constraints.values()) for trial in trials]
    return np.array([trial.values for trial in trials]) * signs, np.array(violations)


class CappedGPSampler(GPSampler):
    """Optuna's Gaussian process sampler on at most `MOST_MODELLED` complete trials."""

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Value]:
        """Return the next configuration to try."""
        chosen: dict[str, Value] = super().sample_relative(cast(Study, _FewerTrials(study)), trial, search_space)
        return chosen


class _FewerTrials:
    """A study that hides all complete trials except those to fit a model to."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def __getattr__(self, name: str) -> object:
        return getattr(self._study, name)

    def _get_trials(
        self, deepcopy: bool = True, states: Container[TrialState] | None = None, use_cache: bool = False
    ) -> list[FrozenTrial]:
        found = self._study._get_trials(deepcopy, states, use_cache)
        complete = [trial for trial in found if trial.state == TrialState.COMPLETE]
        if len(complete) <= MOST_MODELLED:
            return found
        kept = {complete[index].number for index in modelled_trials(rank_trials(complete, self._study.directions))}
        return [trial for trial in found if trial.state != TrialState.COMPLETE or trial.number in kept]
