"""Screening of trials: trials that must break a limit are refused, and trials that fall behind are stopped early.

Early stopping is asynchronous successive halving over several objectives; Optuna's pruners know only one. A trial
passes a rung if it is among the best of all trials that reached the rung so far: by non-dominated rank, and within
a rank by how well the trials are spread over the front, so that all trade-offs continue (the ε-net of MO-ASHA).
No trial waits for another.
"""

import itertools
import math
from collections.abc import Collection, Sequence

import numpy as np

from sae.analysis.pareto import Losses, spread_order
from sae.config.methods import rivals
from sae.config.run import RunConfig
from sae.core.errors import ConfigError
from sae.core.objectives import COSTS, Limit
from sae.core.task import DataSpec
from sae.core.wording import listed
from sae.methods.costing import cost_bounds
from sae.search.method_study import REFUSED, MethodStudy
from sae.search.space import Space

SHIPPED = "shipped_"
MOST_REFUSED = 200
"""After this many refused trials of a method in a row, the search reports that no configuration meets the limits."""
NUM_RUNGS = 2


def screened(methods: Collection[str]) -> set[str]:
    """Return the methods whose trials must meet the limits: all except the rivals of a pick.

    Limits apply to the pick. Users who cannot afford an ensemble still want to know its quality, so the rivals of a
    pick are trained at any cost, unless nothing else is searched.
    """
    return set(methods) - set(rivals()) or set(methods)


def broken_limit(limits: Sequence[Limit], config: RunConfig, spec: DataSpec) -> str | None:
    """Return a sentence about a limit that a configuration breaks at any exits, or None."""
    for limit in _on_costs(limits):
        least = _least_cost(limit, config, spec)
        if limit.violation(least) > 0:
            return f"{limit} cannot be met: this configuration has at least {least:,}"
    return None


def check_reach(spaces: Sequence[Space], limits: Sequence[Limit], spec: DataSpec) -> None:
    """Refuse a search in which every configuration that must meet the limits breaks one.

    Only spaces with few structures are checked; in larger ones the refused trials will show it (`check_hope`).
    """
    if not _on_costs(limits):
        return
    names = screened([space.method for space in spaces])
    tried: list[RunConfig] = []
    for space in spaces:
        if space.method in names:
            points = list(itertools.islice(space.structures(), MOST_REFUSED))
            configs = [space.fill(point) for point in points]
            if len(points) == MOST_REFUSED or not all(broken_limit(limits, config, spec) for config in configs):
                return
            tried += configs
    raise ConfigError(f"limits must leave {listed(sorted(names))} something to try: {_advice(tried, limits, spec)}")


def check_hope(studies: Sequence[MethodStudy], limits: Sequence[Limit], spec: DataSpec) -> None:
    """Refuse to continue if no method that must meet the limits seems to have a configuration within them."""
    names = screened([study.method for study in studies])
    concerned = [study for study in studies if study.method in names]
    if not limits or not all(map(is_hopeless, concerned)):
        return
    configs = [study.config_of(trial) for study in concerned for trial in study.trials()[-MOST_REFUSED:]]
    raise ConfigError(
        f"limits must leave {listed(sorted(names))} something to try, but the last {len(configs)} configurations "
        f"all break one: {_advice(configs, limits, spec)}"
    )


def _advice(configs: Sequence[RunConfig], limits: Sequence[Limit], spec: DataSpec) -> str:
    """Return how far configurations are from the limits, with advice."""
    cheapest = {limit: min(_least_cost(limit, config, spec) for config in configs) for limit in _on_costs(limits)}
    gaps = ", ".join(f"{limit}, but the cheapest has {least:,}" for limit, least in cheapest.items())
    return f"{gaps}; raise the limit, search smaller networks, or leave the method out"


def _on_costs(limits: Sequence[Limit]) -> list[Limit]:
    """Return the limits that can be checked before training; latency is not known before it is measured."""
    return [limit for limit in limits if limit.objective.key in COSTS and limit.is_maximum]


def _least_cost(limit: Limit, config: RunConfig, spec: DataSpec) -> int:
    """Return a lower bound of the limited cost of a configuration."""
    key = limit.objective.key.removeprefix(SHIPPED)
    least: int = getattr(cost_bounds(config, spec, shipped=key != limit.objective.key), key)
    return least


def is_hopeless(study: MethodStudy) -> bool:
    """Return whether all trials of an enumerated space, or many in a row of a sampled one, were refused."""
    enough = int(study.space.size) if study.is_enumerated else MOST_REFUSED
    latest = study.trials()[-enough:]
    return len(latest) == enough and all(REFUSED in trial.user_attrs for trial in latest)


def rungs(epochs: int, reduction: int) -> tuple[int, ...]:
    """Return the epochs of the rungs; each is `reduction` times the one before.

    Example:
        >>> rungs(50, 3), rungs(3, 3), rungs(1, 3)
        ((6, 17), (1,), ())
    """
    steps = {math.ceil(epochs / reduction**level) for level in range(1, NUM_RUNGS + 1)}
    return tuple(sorted(step for step in steps if step < epochs))


def passes(losses: Losses, reduction: int) -> bool:
    """Return whether the latest trial at a rung passes; the first few always do.

    Args:
        losses: Losses of all trials that reached the rung, the latest last, (trial, objective).
        reduction: One in this many trials passes.
    """
    if len(losses) < reduction:
        return True
    best = spread_order(losses)[: math.ceil(len(losses) / reduction)]
    return bool(np.isin(len(losses) - 1, best))
