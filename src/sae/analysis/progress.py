"""How far a study has come: what became of its trials, and how good the front was after each."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sae.analysis.candidates import Candidate, losses_of
from sae.analysis.grids import cell_of
from sae.analysis.pareto import Losses, added_volume, non_dominated, normalised
from sae.core.objectives import Limit, Objective
from sae.records.run import STATES
from sae.records.study import DAMAGED, UNFINISHED, Trial

REFERENCE = 1.1
"""Of normalised losses: a little beyond the worst, so that the worst of one objective still counts in the others."""
EXACT = 3
"""Objectives up to which the volume is computed; of more it is estimated."""
SAMPLED = 2**16
"""Places at which it is."""


def hypervolume_history(
    trials: Iterable[Trial],
    found: Sequence[Candidate],
    objectives: Sequence[Objective],
    limits: Sequence[Limit] = (),
    among: Sequence[Candidate] | None = None,
) -> list[dict[str, Any]]:
    """After each trial that ended, the share of the space of losses that the front so far covers.

    Losses are scaled from the best to the worst of all candidates of the study, costs by their
    logarithm, so that the numbers of one study may be compared over time and over its methods,
    but not with those of another study, nor with those of the same study before it went on. Of more than
    three objectives it is an estimate.

    Args:
        trials: Those that count, in any order; unfinished ones are left out.
        found: Their candidates.
        objectives: What spans the space.
        limits: Candidates that break one add nothing.
        among: The candidates that losses are scaled by; by default `found`.

    Returns:
        Rows `trial`, `ended`, `trials` (ended so far) and `hypervolume`, in [0, 1] and never falling.
    """
    ended = sorted((trial for trial in trials if trial.state in STATES), key=_ended)
    scaled = normalised(losses_of(found, objectives), losses_of(found if among is None else among, objectives))
    points: dict[Path, list[int]] = {}
    for index, item in enumerate(found):
        if item.keeps(limits):
            points.setdefault(item.trial.run.path, []).append(index)
    covered = (ExactShare if len(objectives) <= EXACT else SampledShare)(len(objectives))
    rows = []
    for count, trial in enumerate(ended, start=1):
        covered.add(scaled[points.get(trial.run.path, [])])
        rows.append({"trial": trial.name, "ended": _ended(trial), "trials": count, "hypervolume": covered.share})
    return rows


class ExactShare:
    """The share of the space that points cover, to the last digit: time grows fast with the number of objectives."""

    def __init__(self, num_objectives: int) -> None:
        self.front, self.volume = np.zeros((0, num_objectives)), 0.0
        self.reference = np.full(num_objectives, REFERENCE)

    def add(self, points: Losses) -> None:
        """Count in points (point, objective) of normalised losses."""
        for point in points:
            self.volume += added_volume(point, self.front, self.reference)
            self.front = np.vstack([self.front, point])
        self.front = self.front[non_dominated(self.front)]

    @property
    def share(self) -> float:
        """Of all that is better than the reference."""
        return min(1.0, self.volume / float(np.prod(self.reference)))


class SampledShare:
    """The same, estimated on a fixed sample of the space: of 7 objectives and 75 points exact volumes take minutes.

    The standard error is at most 0.002.
    """

    def __init__(self, num_objectives: int) -> None:
        self.places = np.random.default_rng(0).uniform(0, REFERENCE, (SAMPLED, num_objectives))
        self.is_covered = np.zeros(SAMPLED, dtype=bool)

    def add(self, points: Losses) -> None:
        """Count in points (point, objective) of normalised losses."""
        for point in points[np.isfinite(points).all(axis=1)]:
            self.is_covered |= (self.places >= point).all(axis=1)

    @property
    def share(self) -> float:
        """Of all that is better than the reference."""
        return float(self.is_covered.mean())


def _ended(trial: Trial) -> float:
    return float((trial.run.status or {}).get("ended", 0.0))


def trial_counts(trials: Iterable[Trial]) -> dict[str, dict[str, int]]:
    """By method, how many trials finished, were stopped early, failed, or are unfinished."""
    counts: dict[str, dict[str, int]] = {}
    for trial in trials:
        states = counts.setdefault(trial.method, dict.fromkeys((*STATES, UNFINISHED, DAMAGED), 0))
        states[trial.state] += 1
    return counts


def grid_counts(trials: Iterable[Trial]) -> list[dict[str, int]]:
    """Rows `inputs`, `exits`, `trials`, `finished`: how often an SAE of N inputs and K exits was tried."""
    cells: dict[tuple[int, int], dict[str, int]] = {}
    for trial in trials:
        cell = cell_of(trial.run.config)
        if cell is not None:
            counts = cells.setdefault(cell, {"trials": 0, "finished": 0})
            counts["trials"] += 1
            counts["finished"] += trial.state == "finished"
    return [{"inputs": inputs, "exits": exits, **cells[inputs, exits]} for inputs, exits in sorted(cells)]
