"""How far a study has come: what became of its trials, and how good the front was after each."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sae.analysis.candidates import Candidate, losses_of
from sae.analysis.grids import cell_of
from sae.analysis.pareto import added_volume, non_dominated, normalised
from sae.objectives import Limit, Objective
from sae.record import STATES
from sae.study_record import DAMAGED, UNFINISHED, Trial

REFERENCE = 1.1
"""Of normalised losses: a little beyond the worst, so that the worst of one objective still counts in the others."""


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
    but not with those of another study, nor with those of the same study before it went on.

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
    reference = np.full(len(objectives), REFERENCE)
    front, volume, rows = scaled[:0], 0.0, []
    for count, trial in enumerate(ended, start=1):
        for index in points.get(trial.run.path, []):
            volume += added_volume(scaled[index], front, reference)
            front = np.vstack([front, scaled[index]])
        front = front[non_dominated(front)]
        share = min(1.0, volume / REFERENCE ** len(objectives))
        rows.append({"trial": trial.name, "ended": _ended(trial), "trials": count, "hypervolume": share})
    return rows


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
