"""Independence of members over the trials of a study: how the correlation of their errors goes with i, N and K."""

from collections.abc import Iterable
from dataclasses import dataclass

from sae.analysis.trials import setting_at
from sae.config.methods import METHODS
from sae.core.objectives import ERROR_CORRELATION
from sae.records.evaluation import Where
from sae.records.run import Run

SETTINGS = ("i end", "N", "K")
"""Settings that should make members more or less alike, by the labels of a method's entry."""


@dataclass(frozen=True)
class CorrelationPoint:
    """The mean correlation of the errors of two members of a network, at one of its settings.

    Attributes:
        setting: Label of the setting.
        value: Its value.
        correlation: From independent members, 0, to equal ones, 1.
        run: The run.
    """

    setting: str
    value: float
    correlation: float
    run: str


def correlation_points(runs: Iterable[Run], where: Where = "test") -> list[CorrelationPoint]:
    """Return a point for every setting of every finished run with several members, at its trained K."""
    points: list[CorrelationPoint] = []
    for run in runs:
        found = run.value(ERROR_CORRELATION, where)
        if run.config is None or found is None:
            continue
        paths = METHODS.get(run.config.method.name).influences
        points += [
            CorrelationPoint(setting, setting_at(run.config, paths[setting]), found, run.label)
            for setting in SETTINGS
            if setting in paths
        ]
    return points
