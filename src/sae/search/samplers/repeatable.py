"""Samplers whose suggestions can be repeated: they depend on a seed and the study's trials alone."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState
from threadpoolctl import threadpool_limits

from sae.config.study import Value
from sae.core.seeds import derive_seed
from sae.search.holes import Point
from sae.search.samplers.modelled import CappedGPSampler
from sae.search.samplers.scalarized import ScalarizedSampler
from sae.training.trainer import torch_threads

LARGEST_SEED = 2**32
CHOSEN_BY_GP = "gp:relative_params:0"
"""The attribute in which Optuna's GPSampler stores its choice for a trial, so that later suggestions avoid it."""


def make_sampler(name: str, seed: int, startup: int) -> BaseSampler:
    """Make the sampler of one trial.

    Args:
        name: gp, scalarized, tpe, nsga2 or random.
        seed: Seed of this one suggestion.
        startup: Random trials before a model is used; the size of a population of nsga2.
    """
    makers: dict[str, Callable[[int], BaseSampler]] = {
        "gp": lambda seed: CappedGPSampler(
            seed=seed, n_startup_trials=startup, independent_sampler=RandomSampler(seed=seed)
        ),
        "scalarized": lambda seed: ScalarizedSampler(seed=seed, num_startup=startup),
        "tpe": lambda seed: TPESampler(seed=seed, n_startup_trials=startup),
        "nsga2": lambda seed: NSGAIISampler(seed=seed, population_size=max(2, startup)),
        "random": lambda seed: RandomSampler(seed=seed),
    }
    return RepeatableSampler(makers[name], seed)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread within the context: in torch, and in the libraries of NumPy and SciPy.

    The matrices of a model of some hundred trials are small, so more threads mostly wait for each other, on cores that
    the trials need. And a suggestion must not depend on the number of cores.
    """
    with torch_threads(1), threadpool_limits(1):
        yield


class RepeatableSampler(BaseSampler):
    """A wrapper of another sampler that gives each independent parameter a seed of its own.

    Otherwise independent parameters would depend on the order in which they are suggested. With
    seeds of their own, a trial that was killed halfway through gets the same values when resumed.

    Args:
        make: Makes the other sampler from a seed.
        seed: Seed of all randomness.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self.make, self.seed = make, seed
        self.together = make(seed % LARGEST_SEED)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Delegate to the wrapped sampler."""
        self.together.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Delegate to the wrapped sampler."""
        return self.together.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Value]:
        """Return the choice that was stored before the trial was killed, or the wrapped sampler's."""
        noted = trial.system_attrs.get(CHOSEN_BY_GP)
        if noted:
            stored: dict[str, Value] = json.loads(noted)
            return stored
        with one_thread():
            chosen: dict[str, Value] = self.together.sample_relative(study, trial, search_space)
        return chosen

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Value:
        """Return the first suggestion of a new sampler that is seeded by the parameter's name."""
        alone = self.make(derive_seed(self.seed, param_name) % LARGEST_SEED)
        value: Value = alone.sample_independent(study, trial, param_name, param_distribution)
        return value

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Delegate to the wrapped sampler."""
        self.together.after_trial(study, trial, state, values)


class FixedSampler(BaseSampler):
    """Always suggests the same point.

    Args:
        point: The suggested values.
        otherwise: Suggests the values that the point does not have.
    """

    def __init__(self, point: Point, otherwise: BaseSampler | None = None) -> None:
        self.point, self.otherwise = point, otherwise

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return nothing: parameters are not chosen together."""
        del study, trial
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Value]:
        """Return nothing: parameters are not chosen together."""
        del study, trial, search_space
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Value:
        """Return the value of the point, or what the other sampler suggests."""
        if param_name in self.point or self.otherwise is None:
            return self.point[param_name]
        value: Value = self.otherwise.sample_independent(study, trial, param_name, param_distribution)
        return value
