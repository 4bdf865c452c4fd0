"""Ties of a front: Pareto-optimal candidates that are nearly the same are shown once, with their number.

A front of measured numbers is padded by candidates that differ by less than anybody could tell: by at most 1 % in every
cost, and in every metric by at most its margin, the smallest difference that matters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sae.analysis.candidates import Candidate
from sae.analysis.verdicts import margin_of
from sae.core.objectives import SHIFTED, Objective

TOLERANCE = 0.01
"""Share of a cost by which two candidates may differ and still be alike."""


@dataclass(frozen=True)
class Tied:
    """A candidate that stands for others.

    Attributes:
        candidate: The pick, if it is among them, else the best in the first objective.
        others: Those that are nearly the same.
    """

    candidate: Candidate
    others: tuple[Candidate, ...] = ()


def fold_ties(
    front: Sequence[Candidate],
    objectives: Sequence[Objective],
    task: str,
    pick: Candidate | None = None,
    tolerance: float = TOLERANCE,
) -> list[Tied]:
    """Fold candidates that are nearly the same, in the order of the front.

    Every candidate joins the first that it is alike with, so nobody is farther from the one that stands for it than
    the tolerance.

    Args:
        front: The Pareto-optimal candidates, the best in the first objective first.
        objectives: What they are compared by.
        task: `classification` or `regression`.
        pick: The candidate that must not be folded.
        tolerance: Share of a cost by which alike candidates may differ; 0 folds nothing.
    """
    leaders: list[tuple[Candidate, list[Candidate]]] = []
    for item in sorted(front, key=lambda item: item is not pick):
        for leader, others in leaders:
            if tolerance and _are_alike(leader, item, objectives, task, tolerance):
                others.append(item)
                break
        else:
            leaders.append((item, []))
    places = {id(item): place for place, item in enumerate(front)}
    leaders.sort(key=lambda pair: places[id(pair[0])])
    return [Tied(leader, tuple(others)) for leader, others in leaders]


def _are_alike(one: Candidate, other: Candidate, objectives: Sequence[Objective], task: str, tolerance: float) -> bool:
    for item in objectives:
        values = one.values[item.name], other.values[item.name]
        name = item.name.removesuffix(SHIFTED)
        allowed = tolerance * max(map(abs, values)) if item.is_cost else margin_of(name, task, values[0])
        if abs(values[0] - values[1]) > allowed:
            return False
    return True
