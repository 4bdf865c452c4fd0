"""How the next configuration is chosen."""

from collections.abc import Callable, Mapping
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from sae.search.scalarized import ScalarizedSampler

LARGEST_SEED = 2**32


def make_sampler(name: str, seed: int, startup: int) -> BaseSampler:
    """A sampler without a memory: what it suggests depends on its seed and the study's trials alone.

    Args:
        name: gp, scalarized, tpe, nsga2 or random.
        seed: Of this one suggestion.
        startup: Random trials before a model is used; the first population of nsga2.
    """
    seed %= LARGEST_SEED
    makers: dict[str, Callable[[], BaseSampler]] = {
        "gp": lambda: GPSampler(seed=seed, n_startup_trials=startup, independent_sampler=RandomSampler(seed=seed)),
        "scalarized": lambda: ScalarizedSampler(seed=seed, num_startup=startup),
        "tpe": lambda: TPESampler(seed=seed, n_startup_trials=startup),
        "nsga2": lambda: NSGAIISampler(seed=seed, population_size=max(2, startup)),
        "random": lambda: RandomSampler(seed=seed),
    }
    return makers[name]()


class FixedSampler(BaseSampler):
    """Suggests one point."""

    def __init__(self, point: Mapping[str, Any]) -> None:
        self.point = point

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Nothing is chosen together."""
        del study, trial
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Nothing is chosen together."""
        del study, trial, search_space
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The point's."""
        del study, trial, param_distribution
        return self.point[param_name]
