"""Deep-ensemble equivalents: how many members a deep ensemble needs for the same NLL after temperature scaling."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sae.analysis.bootstrap import RESAMPLES, resampled_means
from sae.analysis.contestants import Contestant, check_same_samples, scaled
from sae.analysis.intervals import Side, Values, combine
from sae.analysis.sample_metrics import sample_metric
from sae.analysis.temperature import losses as losses_of
from sae.core.errors import ConfigError
from sae.core.objectives import TaskName
from sae.records.predictions import Numbers, Predictions

METRIC = "nll_scaled"
MOST_SUBSETS = 20
"""Up to this many subsets of a size, all are averaged; else one for each member, with the members that follow it."""
ROUNDING = 1e-9
"""Differences of NLL that are rounding: an ensemble of four, computed in another way, is worth four and not more."""


@dataclass(frozen=True)
class EnsembleEquivalent:
    """The number of members of a deep ensemble with the same NLL after temperature scaling.

    Attributes:
        members: The number, interpolated; minus infinity below 1, infinity above `most`.
        low: Lower end of its interval, in the same way.
        high: Upper end of its interval.
        curve: The ensemble's NLL with 1, 2, … members, averaged over subsets and seeds.
    """

    members: float
    low: float
    high: float
    curve: tuple[float, ...]

    @property
    def most(self) -> int:
        """Members of the ensemble it was compared with."""
        return len(self.curve)

    @property
    def is_open(self) -> bool:
        """Whether the interval has no end, below or above: then it says nothing."""
        return math.isinf(self.low) and self.low < 0 and math.isinf(self.high) and self.high > 0

    def describe(self, members: float) -> str:
        """Write a number of members for people: `<1` or `>4` outside the range of the ensemble.

        Example:
            >>> equivalent = EnsembleEquivalent(2.25, 1.9, math.inf, (0.4, 0.3, 0.25, 0.2))
            >>> [equivalent.describe(value) for value in (equivalent.members, equivalent.low, equivalent.high)]
            ['2.2', '1.9', '>4']
        """
        exact = self.exact(members)
        return exact if isinstance(exact, str) else f"{exact:.1f}"

    @property
    def in_words(self) -> str:
        """The number, as a phrase: `2.2 members`, `less than 1 member`, `more than 4 members`."""
        if math.isinf(self.members):
            return "less than 1 member" if self.members < 0 else f"more than {self.most} members"
        shown = self.describe(self.members)
        return f"{shown} member{'' if shown == '1.0' else 's'}"

    def exact(self, members: float) -> float | str:
        """Return a number of members for JSON, which has no infinity: the number, or `<1` or `>4` as a text."""
        if math.isinf(members):
            return "<1" if members < 0 else f">{self.most}"
        return members


def ensemble_equivalent(
    one: Contestant,
    ensemble: Contestant,
    resamples: int = RESAMPLES,
    seed: int = 0,
    losses: Sequence[NDArray[np.float64]] | None = None,
) -> EnsembleEquivalent:
    """Return how many members of a deep ensemble have the NLL of a configuration, both after temperature scaling.

    The ensemble's NLL with m members is the mean over its subsets of m members, each with a temperature of
    its own, and over its seeds. Between whole numbers of members it is interpolated linearly.

    Args:
        one: The configuration.
        ensemble: A deep ensemble on the same samples, whose members were kept.
        resamples: Number of resamples for the interval.
        seed: Seed of their choice.
        losses: The result of `member_losses` for the ensemble, if it is known.
    """
    check_same_samples([one, ensemble])
    targets = one.runs[0].test.targets
    nll = sample_metric("nll", one.task)
    own = [nll.of_samples(numbers, targets) for numbers in one.test_numbers(METRIC)]
    curves = member_losses(ensemble) if losses is None else losses
    features = [*own, *(_as_features(curve) for curve in curves)]
    drawn = list(resampled_means(features, resamples, seed))
    level = Side(
        np.array([nll.finish(np.asarray(run.mean(axis=0)).ravel()) for run in own]),
        np.stack([nll.finish(means) for means in drawn[: len(own)]], axis=1),
    )
    points = np.array([curve.mean(axis=1) for curve in curves])  # (run, size)
    bent = np.stack(drawn[len(own) :], axis=1)  # (resample, run, size)
    sizes = [Side(points[:, size], bent[..., size]) for size in range(points.shape[1])]
    # A number of members is in the interval if the difference from an ensemble of so many may be 0.
    ends = np.array([combine([level, size], [1, -1]).interval for size in sizes])  # (size, end), rising
    zero = np.zeros(1)
    low, high = (float(interpolate_members(zero, -ends[None, :, end])[0]) for end in (1, 0))
    mean_curve = points.mean(axis=0)
    members = float(interpolate_members(np.array([level.mean]), mean_curve[None])[0])
    return EnsembleEquivalent(members, low, high, tuple(mean_curve.tolist()))


def member_losses(ensemble: Contestant) -> list[NDArray[np.float64]]:
    """Return for each run the scaled NLL of each test sample with 1, 2, … members, (size, sample)."""
    curves = [_losses_by_size(run, ensemble.name) for run in ensemble.runs]
    if len({len(curve) for curve in curves}) > 1:
        raise ConfigError(f"the runs of {ensemble.name} must have the same number of members")
    return curves


def interpolate_members(level: Values, curve: Values) -> Values:
    """Return for each level the number of members at which a curve reaches it; infinite if it does not.

    Where a curve rises again, its lowest value so far is used. Differences up to `ROUNDING` count for nothing.

    Args:
        level: NLL, (case,).
        curve: NLL with 1, 2, … members, (case, size).

    Example:
        >>> curve = np.array([[0.4, 0.3, 0.2]] * 4)
        >>> interpolate_members(np.array([0.5, 0.4, 0.25, 0.1]), curve).round(9).tolist()
        [-inf, 1.0, 2.5, inf]
    """
    falling = np.minimum.accumulate(curve, axis=1)
    size = curve.shape[1]
    reached = (falling >= level[:, None] - ROUNDING).sum(axis=1)  # the largest size whose NLL is not below the level
    left = np.clip(reached - 1, 0, size - 1)
    right = np.clip(reached, 0, size - 1)
    rows = np.arange(len(level))
    above, below = falling[rows, left], falling[rows, right]
    step = np.divide(above - level, above - below, out=np.zeros_like(level), where=above > below)
    found = reached + np.clip(step, 0, 1)
    found = np.where(reached == 0, -np.inf, found)
    passed: Values = np.where((reached == size) & (level < falling[:, -1] - ROUNDING), np.inf, found)
    return passed


def subset_mean(task: TaskName, members: Numbers) -> Numbers:
    """Return the joint prediction of some members, (sample, number): the mixture, or its mean and variance.

    Args:
        task: Decides what the numbers mean.
        members: (member, sample, number).
    """
    if task == "classification":
        highest = members.max(axis=0)
        mixed: Numbers = highest + np.log(np.exp(members - highest).mean(axis=0))
        return mixed
    mean = members[..., 0].mean(axis=0)
    variance = members[..., 1].mean(axis=0) + members[..., 0].var(axis=0)
    return np.stack([mean, variance], axis=1)


def subsets(count: int, size: int) -> Sequence[tuple[int, ...]]:
    """Return the subsets of `count` members that are averaged.

    Example:
        >>> subsets(3, 2)
        [(0, 1), (0, 2), (1, 2)]
    """
    if math.comb(count, size) <= MOST_SUBSETS:
        return list(combinations(range(count), size))
    return [tuple((first + place) % count for place in range(size)) for first in range(count)]


def _losses_by_size(run: Predictions, name: str) -> NDArray[np.float64]:
    """Return the scaled NLL of each test sample with 1, 2, … members, averaged over subsets, (size, sample)."""
    if run.test.members is None or run.val.members is None:
        raise ConfigError(f"{name} must be a deep ensemble, whose members are kept with its predictions")
    found = []
    for size in range(1, len(run.test.members) + 1):
        chosen = [list(subset) for subset in subsets(len(run.test.members), size)]
        of_subsets = [
            losses_of(
                run.task,
                scaled(
                    run.task,
                    subset_mean(run.task, run.val.members[subset]),
                    run.val,
                    subset_mean(run.task, run.test.members[subset]),
                ),
                run.test.targets,
            )
            for subset in chosen
        ]
        found.append(np.mean(of_subsets, axis=0))
    return np.stack(found)


def _as_features(curve: NDArray[np.float64]) -> csr_array:
    return csr_array(curve.T)
