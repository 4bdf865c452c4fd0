"""Progress of a study: how its trials ended, and how good the front was after each of them."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from sae.analysis.candidates import Candidate, losses_of
from sae.analysis.pareto import Losses, added_volume, may_be_news, normalised
from sae.core.objectives import Limit, Objective
from sae.records.evaluation import Json
from sae.records.run import ENDINGS, Run

REFERENCE = 1.1
"""Reference point of normalised losses: beyond 1, so that a point that is worst in one objective counts, too."""
EXACT = 3
"""Up to this many objectives the volume is exact; for more it is estimated."""
SAMPLED = 2**16
"""Number of points for the estimate of the volume."""


@dataclass(frozen=True)
class Milestone:
    """The front after a trial ended.

    Attributes:
        trial: The trial.
        ended: When it ended, in seconds since 1970.
        trials: Trials that have ended so far.
        hypervolume: Share of the space of losses that the front covers, in [0, 1].
    """

    trial: str
    ended: float
    trials: int
    hypervolume: float

    def describe(self) -> Json:
        """Return it as JSON."""
        return asdict(self)


def hypervolume_history(
    runs: Iterable[Run],
    found: Sequence[Candidate],
    objectives: Sequence[Objective],
    limits: Sequence[Limit] = (),
    among: Sequence[Candidate] | None = None,
) -> list[Milestone]:
    """Return, after each trial that ended, the share of the space of losses that the front covers.

    Losses are scaled from the best to the worst of all candidates of the study, costs by their
    logarithm. So numbers of one study can be compared over time and over its methods, but not with those
    of another study, nor with earlier numbers of the same study if it has continued since. For more than
    three objectives the share is an estimate.

    Args:
        runs: The trials that count, in any order; unfinished ones are left out.
        found: Their candidates.
        objectives: The axes of the space.
        limits: Candidates that break a limit add nothing.
        among: The candidates that losses are scaled by; by default `found`.

    Returns:
        Milestones whose hypervolume never falls.
    """
    ended = sorted((run for run in runs if run.state in ENDINGS), key=lambda run: run.ended)
    losses = losses_of(found, objectives)
    scaled = normalised(losses, losses if among is None or among == found else losses_of(among, objectives))
    points: dict[str, list[int]] = {}
    for index, item in enumerate(found):
        if item.keeps(limits):
            points.setdefault(str(item.run.record.path), []).append(index)
    of_run = [points.get(str(run.record.path), []) for run in ended]
    in_order = [index for indices in of_run for index in indices]
    news = {index for index, is_new in zip(in_order, may_be_news(scaled[in_order]), strict=True) if is_new}
    covered = (ExactShare if len(objectives) <= EXACT else SampledShare)(len(objectives))
    milestones, share = [], covered.share
    for count, (run, indices) in enumerate(zip(ended, of_run, strict=True), start=1):
        new = [index for index in indices if index in news]
        if new:
            covered.add(scaled[new])
            share = covered.share
        milestones.append(Milestone(run.label, run.ended, count, share))
    return milestones


class ExactShare:
    """The exact share of the space that points cover; its time grows fast with the number of objectives."""

    def __init__(self, num_objectives: int) -> None:
        self.front, self.volume = np.zeros((0, num_objectives)), 0.0
        self.reference = np.full(num_objectives, REFERENCE)
        self.whole = float(np.prod(self.reference))

    def add(self, points: Losses) -> None:
        """Add points (point, objective) of normalised losses."""
        for point in points[np.isfinite(points).all(axis=1)]:
            if not (self.front <= point).all(axis=1).any():
                self.volume += added_volume(point, self.front, self.reference)
                self.front = np.vstack([self.front[(self.front < point).any(axis=1)], point])

    @property
    def share(self) -> float:
        """Share of everything that is better than the reference."""
        return min(1.0, self.volume / self.whole)


class SampledShare:
    """The share estimated on a fixed sample of the space, with a standard error of at most 0.002.

    For 75 points in 7 objectives the exact volume takes minutes.
    """

    def __init__(self, num_objectives: int) -> None:
        self.places = np.random.default_rng(0).uniform(0, REFERENCE, (SAMPLED, num_objectives))
        self.is_covered = np.zeros(SAMPLED, dtype=bool)

    def add(self, points: Losses) -> None:
        """Add points (point, objective) of normalised losses."""
        for point in points[np.isfinite(points).all(axis=1)]:
            self.is_covered |= (self.places >= point).all(axis=1)

    @property
    def share(self) -> float:
        """Share of everything that is better than the reference."""
        return float(self.is_covered.mean())


def trial_counts(runs: Iterable[Run]) -> dict[str, dict[str, int]]:
    """Count by method how many trials finished, were stopped early, failed, are unfinished or damaged."""
    counts: dict[str, dict[str, int]] = {}
    for run in runs:
        states = counts.setdefault(run.method, dict.fromkeys((*ENDINGS, "unfinished", "damaged"), 0))
        states[run.state] += 1
    return counts


@dataclass(frozen=True)
class CellCount:
    """The number of trials with N inputs and K exits."""

    inputs: int
    exits: int
    trials: int
    finished: int

    def describe(self) -> Json:
        """Return it as JSON."""
        return asdict(self)


def grid_counts(runs: Iterable[Run]) -> list[CellCount]:
    """Count the trials of every N and K that was tried, by N and K."""
    cells: dict[tuple[int, int], list[Run]] = {}
    for run in runs:
        cell = run.config.method.grid_cell() if run.config else None
        if cell is not None:
            cells.setdefault(cell, []).append(run)
    return [
        CellCount(*cell, len(cells[cell]), sum(run.state == "finished" for run in cells[cell]))
        for cell in sorted(cells)
    ]
