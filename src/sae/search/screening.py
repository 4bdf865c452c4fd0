"""Trials that are not worth training: refused before it by the limits, or stopped early at a rung."""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from sae.analysis.pareto import Losses, spread_order
from sae.config.run import RunConfig
from sae.core.errors import ConfigError
from sae.core.objectives import COSTS, Limit
from sae.core.task import DataSpec
from sae.methods.costing import cost_bounds
from sae.search.method_study import REFUSED, MethodStudy
from sae.search.space import Space

SHIPPED = "shipped_"
MOST_REFUSED = 200
"""Trials of a method refused in a row before the search says that its limits leave nothing to sample."""


def broken_limit(limits: Sequence[Limit], config: RunConfig, spec: DataSpec) -> str | None:
    """The limit that a configuration breaks whatever exits it learns to use, as a sentence; None if there is none."""
    for limit in on_costs(limits):
        least = least_of(limit, config, spec)
        if limit.violation(least) > 0:
            return f"{limit} cannot be kept, the least it may come to is {least:,}"
    return None


def check_reach(spaces: Sequence[Space], limits: Sequence[Limit], spec: DataSpec) -> None:
    """Refuse at once a space of which nothing can keep the limits; where that takes long to tell, trials will show."""
    if not on_costs(limits):
        return
    for space in spaces:
        points = list(itertools.islice(space.structures(), MOST_REFUSED))
        if len(points) < MOST_REFUSED and all(broken_limit(limits, space.fill(point), spec) for point in points):
            told = _told([space.fill(point) for point in points], limits, spec)
            raise ConfigError(f"limits must leave something to try of {space.method}: {told}")


def check_hope(study: MethodStudy, studies: Sequence[MethodStudy], limits: Sequence[Limit], spec: DataSpec) -> None:
    """Say so if a sampled space seems to hold nothing within the limits, or if no enumerated one does."""
    concerned = studies if study.is_enumerated else [study]
    if not all(map(_is_hopeless, concerned)):
        return
    configs = [study.config_of(trial) for trial in study.trials()[-MOST_REFUSED:]]
    raise ConfigError(
        f"limits must leave something to try, however {len(configs)} configurations of {study.method} in a row "
        f"had to be refused: {_told(configs, limits, spec)}"
    )


def _told(configs: Sequence[RunConfig], limits: Sequence[Limit], spec: DataSpec) -> str:
    """How far configurations are from the limits, and what to do."""
    cheapest = {limit: min(least_of(limit, config, spec) for config in configs) for limit in on_costs(limits)}
    told = ", ".join(f"{limit} where the cheapest comes to {least:,}" for limit, least in cheapest.items())
    return f"{told}; raise the limit, search smaller networks, or leave the method out"


def on_costs(limits: Sequence[Limit]) -> list[Limit]:
    """Limits that can be broken before training; latency has no bound before it is measured."""
    return [limit for limit in limits if limit.objective.key in COSTS and limit.is_maximum]


def least_of(limit: Limit, config: RunConfig, spec: DataSpec) -> int:
    """The least that a configuration may cost in what is limited."""
    key = limit.objective.key.removeprefix(SHIPPED)
    least: int = getattr(cost_bounds(config, spec, shipped=key != limit.objective.key), key)
    return least


def _is_hopeless(study: MethodStudy) -> bool:
    """Whether all of a finite space, or so many in a row of another one, had to be refused."""
    enough = int(study.space.size) if study.is_enumerated else MOST_REFUSED
    latest = study.trials()[-enough:]
    return len(latest) == enough and all(REFUSED in trial.user_attrs for trial in latest)


NUM_RUNGS = 2


def rungs(epochs: int, reduction: int) -> tuple[int, ...]:
    """Epochs after which trials are judged, a `reduction` apart.

    Example:
        >>> rungs(50, 3), rungs(3, 3), rungs(1, 3)
        ((6, 17), (1,), ())
    """
    steps = {math.ceil(epochs / reduction**level) for level in range(1, NUM_RUNGS + 1)}
    return tuple(sorted(step for step in steps if step < epochs))


def passes(losses: Losses, reduction: int) -> bool:
    """Whether the last of the trials at a rung goes on; the first few always do.

    Args:
        losses: Of all trials that have been at the rung, (trial, objective).
        reduction: One of so many goes on.
    """
    if len(losses) < reduction:
        return True
    best = spread_order(losses)[: math.ceil(len(losses) / reduction)]
    return bool(np.isin(len(losses) - 1, best))
