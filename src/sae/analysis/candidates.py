"""Candidates of a study: every network that a finished trial can be read as, the Pareto front among them, and its ties.

A front of measured numbers is padded by candidates that differ by less than anybody could tell: by at most 1 % in every
cost, and in every metric by at most its margin, the smallest difference that matters. Such ties are shown once.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

import numpy as np

from sae.analysis.pareto import Losses, non_dominated
from sae.analysis.statistics import margin_of
from sae.config.methods import METHODS
from sae.config.run import RunConfig
from sae.core.objectives import ALL_COSTS, SHIFTED, Limit, Objective
from sae.records.evaluation import Json, Reading
from sae.records.run import Run

Network = tuple[str, int]
"""The identity of a configuration in a study: its label and K′."""
TOLERANCE = 0.01
"""Share of a cost by which two candidates may differ and still be alike."""


class Configured:
    """Something that was trained with a config.

    Attributes:
        config: How it was trained.
    """

    config: RunConfig

    @property
    def method(self) -> str:
        """The name of its method."""
        return self.config.method.name

    @property
    def kind(self) -> str:
        """The class of methods it belongs to, by its trained N and K."""
        return self.config.kind

    @property
    def is_rival(self) -> bool:
        """Whether a pick is compared with it: it is of a rival's method, but not an ensemble of one."""
        return METHODS.get(self.method).rival is not None and self.config.called.key == self.kind


@dataclass(frozen=True)
class Candidate(Configured):
    """A trained network at K′ exits: a trial, or a configuration that was confirmed on new seeds.

    Attributes:
        run: The finished trial.
        config: How the network to ship was trained.
        exits: K, the number of exits per input that it was trained for.
        eval_exits: K′, the number of exits per input that it predicts with.
        active: Number of inputs that use each exit, in the network to ship.
        values: Every validation metric and cost, by the names of objectives; of a confirmed configuration the means of
            the metrics over the new seeds, and the costs of the network to ship.
        again: Its runs on new seeds, if it was confirmed.
        has_failed: Whether it failed on another new seed, so that those it finished may flatter it.
    """

    run: Run
    config: RunConfig
    exits: int
    eval_exits: int
    active: tuple[int, ...]
    values: Mapping[str, float]
    again: tuple[Run, ...] = ()
    has_failed: bool = False

    @property
    def shipped(self) -> Run:
        """The run to ship: of the first new seed, whatever its own result, or else the trial.

        The best of several seeds would be chosen by luck again.
        """
        return self.again[0] if self.again else self.run

    @property
    def network(self) -> Network:
        """Its identity in a study."""
        return self.label, self.eval_exits

    @property
    def label(self) -> str:
        """The name of its trial, `sae/12`."""
        return self.run.label

    @property
    def has_shift(self) -> bool:
        """Whether it was evaluated on corrupted validation images."""
        return self.run.evaluation is not None and self.run.evaluation.shifted_val is not None

    def deviation(self, name: str) -> float | None:
        """Return the standard deviation of a validation metric over new seeds; None for costs and single seeds."""
        if len(self.again) < 2 or name in ALL_COSTS:
            return None
        return stdev(values[name] for values in _values_of(self.again, self.eval_exits))

    def losses(self, objectives: Sequence[Objective]) -> list[float]:
        """Return one loss per objective on the scale of comparison; NaN for a value that was not recorded."""
        return [objective.scaled_loss(self.values.get(objective.name, math.nan)) for objective in objectives]

    def keeps(self, limits: Iterable[Limit]) -> bool:
        """Return whether every limit is known to hold."""
        return all(limit.violation(self.values.get(limit.objective.name, math.nan)) <= 0 for limit in limits)

    def chosen_by(self) -> Json:
        """Return as JSON what chooses it: the split, the seeds and their runs, and the spread of the metrics."""
        runs = self.again or (self.run,)
        return {
            "split": "validation",
            "seeds": [run.config.seed for run in runs if run.config],
            "are_new": bool(self.again),
            "runs": [str(run.record.path) for run in runs],
            "std": {name: std for name in self.values if (std := self.deviation(name)) is not None},
        }

    def describe(self) -> Json:
        """Return it as JSON, the run by its path."""
        return {
            "trial": self.label,
            "run": str(self.shipped.record.path),
            "method": self.method,
            "kind": self.kind,
            "exits": self.exits,
            "eval_exits": self.eval_exits,
            "active": list(self.active),
            "settings": self.config.summary,
            "values": dict(self.values),
        }


def candidates(runs: Iterable[Run]) -> list[Candidate]:
    """Return every finished run at every K′ that is another network, in the order in which the runs ended.

    Damaged runs are left out, so that one of them does not hide the rest; `damages` names them.
    """
    ordered = sorted(runs, key=lambda run: run.ended)
    return [candidate for run in ordered for candidate in candidates_of(run)]


def candidates_of(run: Run) -> list[Candidate]:
    """Return one run at every K′ that is another network; an empty list if it has no result.

    Exits of hardly any weight are dropped, so that several K′ may use the same members, with the same weights. Of
    these the smallest stands for all. Older runs recorded how many inputs use each exit, but not which: there, equal
    counts are taken for equal members, which is rarely wrong.
    """
    if run.config is None or run.evaluation is None:
        return []
    evaluation = run.evaluation
    readings: dict[tuple[int, ...], Reading] = {}
    for reading in sorted(evaluation.val.readings, key=lambda reading: reading.eval_exits):
        readings.setdefault(reading.members or reading.active, reading)
    return [
        Candidate(
            run,
            run.config,
            evaluation.exits,
            reading.eval_exits,
            reading.active,
            evaluation.values_of(reading),
        )
        for reading in readings.values()
    ]


def over_new_seeds(trial: Candidate, runs: Sequence[Run], *, has_failed: bool) -> Candidate:
    """Return a candidate as its runs on new seeds confirmed it.

    The trial was chosen among many by the result of one seed, which flatters it: so its own metrics do not count.

    Args:
        trial: The candidate.
        runs: The same configuration on new seeds, as far as they have finished.
        has_failed: Whether others have not.
    """
    values, first = _values_of(runs, trial.eval_exits), runs[0]
    assert first.config is not None and first.evaluation is not None, "only finished runs confirm"  # noqa: PT018
    means = {key: fmean(each[key] for each in values) for key in values[0] if all(key in each for each in values)}
    return replace(
        trial,
        config=first.config,
        active=first.evaluation.val.at(trial.eval_exits).active,
        values={**means, **first.evaluation.costs(trial.eval_exits)},
        again=tuple(runs),
        has_failed=has_failed,
    )


def _values_of(runs: Iterable[Run], eval_exits: int) -> list[dict[str, float]]:
    return [run.evaluation.objective_values(eval_exits) for run in runs if run.evaluation is not None]


def damages(runs: Iterable[Run]) -> dict[str, str]:
    """Return by run why it is damaged, with what to do."""
    return {run.label: run.damage for run in runs if run.damage is not None}


def losses_of(found: Sequence[Candidate], objectives: Sequence[Objective]) -> Losses:
    """Return the losses of candidates, (candidate, objective)."""
    columns = [one.scaled_losses([item.values.get(one.name, math.nan) for item in found]) for one in objectives]
    return np.array(columns, dtype=np.float64).reshape(len(objectives), -1).T.copy()


def front(found: Sequence[Candidate], objectives: Sequence[Objective], limits: Sequence[Limit] = ()) -> list[Candidate]:
    """Return the Pareto-optimal candidates among those within the limits, each point once.

    Of candidates with equal values, the first at its trained K is kept, else the first.
    """
    kept = [item for item in found if item.keeps(limits)]
    best = [item for item, good in zip(kept, non_dominated(losses_of(kept, objectives)), strict=True) if good]
    unique: dict[tuple[float, ...], Candidate] = {}
    for item in sorted(best, key=lambda item: item.eval_exits != item.exits):
        unique.setdefault(tuple(item.losses(objectives)), item)
    return [item for item in best if any(item is other for other in unique.values())]


def fronts_by_kind(
    found: Sequence[Candidate], objectives: Sequence[Objective], limits: Sequence[Limit] = ()
) -> dict[str, list[Candidate]]:
    """Return the Pareto front of each class of methods; a class with nothing within the limits is left out."""
    of_kind: dict[str, list[Candidate]] = {}
    for item in found:
        of_kind.setdefault(item.kind, []).append(item)
    fronts = {kind: front(members, objectives, limits) for kind, members in of_kind.items()}
    return {kind: best for kind, best in fronts.items() if best}


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
    for item in sorted(front, key=lambda item: pick is None or item.network != pick.network):
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
