"""How the next configuration is chosen."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from sae.core.seeds import derive_seed
from sae.search.samplers.scalarized import ScalarizedSampler

LARGEST_SEED = 2**32
CHOSEN_BY_GP = "gp:relative_params:0"
"""Where Optuna's GPSampler notes what it has chosen for a trial, so that others avoid it; asked again it would too."""


def make_sampler(name: str, seed: int, startup: int) -> BaseSampler:
    """A sampler without a memory: what it suggests depends on its seed and the study's trials alone.

    Args:
        name: gp, scalarized, tpe, nsga2 or random.
        seed: Of this one suggestion.
        startup: Random trials before a model is used; the first population of nsga2.
    """
    makers: dict[str, Callable[[int], BaseSampler]] = {
        "gp": lambda seed: GPSampler(seed=seed, n_startup_trials=startup, independent_sampler=RandomSampler(seed=seed)),
        "scalarized": lambda seed: ScalarizedSampler(seed=seed, num_startup=startup),
        "tpe": lambda seed: TPESampler(seed=seed, n_startup_trials=startup),
        "nsga2": lambda seed: NSGAIISampler(seed=seed, population_size=max(2, startup)),
        "random": lambda seed: RandomSampler(seed=seed),
    }
    return ByNameSampler(makers[name], seed)


class ByNameSampler(BaseSampler):
    """Suggests what another sampler does, and each parameter by a seed of its own.

    Parameters that are not chosen together would otherwise depend on the order in which they are
    suggested; so the rest of a trial that was cut short in being asked is what it would have been.

    Args:
        make: The other sampler, for a seed.
        seed: Of all that is random.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self.make, self.seed = make, seed
        self.together = make(seed % LARGEST_SEED)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """As the other."""
        self.together.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """As the other."""
        return self.together.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """As the other, unless it has chosen already and the trial was then cut short in being asked."""
        chosen = trial.system_attrs.get(CHOSEN_BY_GP)
        return json.loads(chosen) if chosen else self.together.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """As another of its kind that has suggested nothing yet."""
        alone = self.make(derive_seed(self.seed, param_name) % LARGEST_SEED)
        return alone.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """As the other."""
        self.together.after_trial(study, trial, state, values)


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
