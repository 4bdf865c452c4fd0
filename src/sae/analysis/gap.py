"""The share of the gap between a single network and a deep ensemble that another network closes."""

from collections.abc import Callable
from dataclasses import dataclass

from scipy.optimize import brentq

from sae.analysis.bootstrap import RESAMPLES, draw_metrics
from sae.analysis.contestants import Contestant, check_same_samples
from sae.analysis.intervals import Side, combine
from sae.config.settings import differences
from sae.core.errors import ConfigError

FARTHEST = 1e6
"""How far the ends of an interval are looked for."""


@dataclass(frozen=True)
class GapShare:
    """(single − ours) / (single − ensemble) in a metric: 0 is as good as the single network, 1 as the ensemble.

    Attributes:
        metric: Its name.
        share: The share; above 1 if the network is better than the ensemble.
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
    """

    metric: str
    share: float
    low: float
    high: float

    def __str__(self) -> str:
        """Write it in per cent: `83 % (70 % to 97 %)`."""
        return f"{self.share:.0%} ({self.low:.0%} to {self.high:.0%})".replace("%", " %")


def gap_shares(
    single: Contestant,
    ours: Contestant,
    ensemble: Contestant,
    metrics: tuple[str, ...] = ("nll", "nll_scaled"),
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, GapShare | None]:
    """Return for each metric the share of the gap that a network closes; None where the gap itself may be 0.

    Each network should have its best number of epochs: a single network that was trained for too long makes the gap
    wide, and every share large.

    Args:
        single: One network with the architecture of the ensemble's members.
        ours: The network that is to take the ensemble's place.
        ensemble: The deep ensemble.
        metrics: Names of metrics, as in `compare_samples`.
        resamples: Number of resamples.
        seed: Seed of their choice.
    """
    rivals = (single, ours, ensemble)
    check_same_samples(rivals)
    if single.config and ensemble.config and single.config.backbone != ensemble.config.backbone:
        other = "; ".join(differences(ensemble.config.backbone, single.config.backbone)) or "its kind"
        raise ConfigError(
            f"the single network must have the architecture of the ensemble's members, but {single.name} differs from "
            f"{ensemble.name} in {other}"
        )
    drawn = [draw_metrics(rival, metrics, resamples, seed) for rival in rivals]
    return {name: _share(name, *(sides[name] for sides in drawn)) for name in metrics}


def _share(metric: str, single: Side, ours: Side, ensemble: Side) -> GapShare | None:
    """Return the share with Fieller's interval: every r for which (single − ours) − r·(single − ensemble) may be 0."""
    sides = (single, ours, ensemble)
    gap = combine(sides, (1, 0, -1))
    low, high = gap.interval
    if low <= 0 <= high:
        return None
    found = combine(sides, (1, -1, 0)).value / gap.value

    def excess(share: float) -> float:
        left = combine(sides, (1 - share, -1, share))
        return abs(left.value) - left.reach()

    return GapShare(metric, found, _end(excess, found, -1), _end(excess, found, 1))


def _end(excess: Callable[[float], float], start: float, direction: int) -> float:
    """Return the first number on one side of the start that the interval does not hold any more."""
    step = 0.125
    while excess(start + direction * step) <= 0:
        step *= 2
        if step > FARTHEST:
            return direction * float("inf")
    return float(brentq(excess, *sorted((start, start + direction * step)), xtol=1e-6))
