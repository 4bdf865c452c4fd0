"""Selections from a study: Pareto front and pick for given objectives, limits and methods.

Trials are compared by the validation result of one seed, so the best of many trials looks better than it is (the
winner's curse). Once configurations are confirmed, the pick is chosen among these, by the means of their validation
results over new seeds. Test results play no part.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sae.analysis.candidates import Candidate, candidates, damages, front, losses_of, over_new_seeds
from sae.analysis.pareto import knee
from sae.analysis.progress import Milestone, grid_counts, hypervolume_history, trial_counts
from sae.analysis.results import Result, confirmed_results, usable
from sae.core.errors import ConfigError, NothingFoundError, did_you_mean
from sae.core.objectives import Limit, Objective, all_under_shift, limits, objective, objectives
from sae.core.wording import count, listed
from sae.records.evaluation import Json
from sae.records.run import Run
from sae.records.study import StudyRecord

NO_SHIFT = (
    "a front under shift needs trials that were evaluated on corrupted validation images, but this study has none: "
    "search images with --shift in a new folder"
)


@dataclass(frozen=True)
class Pick:
    """The recommended candidate, and why it was chosen, in a sentence."""

    candidate: Candidate
    why: str


@dataclass(frozen=True)
class Selection:
    """The answer of a study to a question: its front, never empty, and its pick.

    Attributes:
        study: The study.
        objectives: What candidates are compared by.
        limits: What the front keeps.
        runs: All trials of the requested methods, however they ended.
        everything: Candidates of all methods.
        candidates: Candidates of the requested methods.
        front: The Pareto-optimal candidates within the limits, the best in the first objective first.
        again: Candidates of all methods that were confirmed, by their results on new seeds.
        finalists: What the pick is chosen among: the Pareto-optimal confirmed candidates of the requested methods
            within the limits, those that failed on a seed only if all did; the front while there are none.
    """

    study: StudyRecord
    objectives: tuple[Objective, ...]
    limits: tuple[Limit, ...]
    runs: list[Run]
    everything: list[Candidate]
    candidates: list[Candidate]
    front: list[Candidate]
    again: list[Candidate]
    finalists: list[Candidate]

    @property
    def is_shifted(self) -> bool:
        """Whether candidates are compared on corrupted images only; costs are the same there."""
        metrics = [item for item in self.objectives if not item.is_cost]
        return bool(metrics) and all(item.is_shifted for item in metrics)

    def history(self) -> list[Milestone]:
        """Return the hypervolume after each trial, on a scale that all methods of the study share."""
        return hypervolume_history(self.runs, self.candidates, self.objectives, self.limits, self.everything)

    def describe(self) -> Json:
        """Return it as JSON."""
        history = self.history()
        return {
            "objectives": [item.name for item in self.objectives],
            "max": {limit.objective.name: limit.bound for limit in self.limits if limit.is_maximum},
            "min": {limit.objective.name: limit.bound for limit in self.limits if not limit.is_maximum},
            "front": [item.describe() for item in self.front],
            "hypervolume": history[-1].hypervolume,
            "history": [milestone.describe() for milestone in history],
            "trials": trial_counts(self.runs),
            "grid": [cell.describe() for cell in grid_counts(self.runs)],
            "damaged": damages(self.runs),
            "failed": failures(self.runs),
        }

    def pick(self, prefer: Objective | None = None, weights: Mapping[str, float] | None = None) -> Pick:
        """Return the recommended candidate: the best in `prefer`, or by default the best compromise.

        Args:
            prefer: What the pick must be best in.
            weights: How much objectives count in the compromise, by name; 1 for those that are not named.
        """
        if prefer is not None and weights:
            raise ConfigError("weights are for the best compromise, but a preferred objective was given: drop one")
        return pick(self.finalists, self.objectives, prefer, _checked_weights(weights or {}, self.objectives))

    def best_of(self, method: str, chosen: Candidate) -> Candidate | None:
        """Return the best candidate of a rival's method by the first objective, to compare the chosen one with.

        Limits do not count: somebody who cannot afford an ensemble still wants to know its quality. None
        if the chosen candidate is of this method itself, or if the method has no finished trial. An ensemble of one
        counts as neither: it is a standard network. Like the pick, rivals are chosen by new seeds where they have any.
        """
        if chosen.method == method and chosen.is_rival:
            return None
        first = self.objectives[0]
        whole = [item for item in self.again if not item.has_failed]
        for pool in (whole, self.again, self.everything):
            of_method = [item for item in pool if item.method == method and item.is_rival]
            found = [item for item in of_method if math.isfinite(item.values.get(first.name, math.nan))]
            if found:
                return min(found, key=lambda item: first.loss(item.values[first.name]))
        return None


def select(
    study: StudyRecord,
    *,
    names: Sequence[str] | None = None,
    prefer: str | None = None,
    shift: bool = False,
    maximum: Mapping[str, float] | None = None,
    minimum: Mapping[str, float] | None = None,
    methods: Sequence[str] | None = None,
    runs: Sequence[Run] | None = None,
    everything: list[Candidate] | None = None,
    confirmed: Sequence[Result] | None = None,
) -> Selection:
    """Select from a study by its validation results.

    Args:
        study: The study.
        names: Objectives to compare by; by default the study's.
        prefer: One more objective, unless it is among them already.
        shift: Whether to compare by these objectives on corrupted validation images.
        maximum: Upper limits, which replace the study's of the same name.
        minimum: Lower limits, likewise.
        methods: The methods to select from; by default all.
        runs: The study's trials, if they were read already.
        everything: The candidates of these trials, if they were made already.
        confirmed: What was confirmed, if it was read already; nothing to choose by trials alone.
    """
    config = study.config
    compared = objectives(dict.fromkeys([*(names or config.objectives), *([prefer] if prefer else [])]), config.task)
    if shift:
        compared = all_under_shift(compared)
    kept = limits({**config.max, **(maximum or {})}, {**config.min, **(minimum or {})}, config.task)
    known = _known_methods(methods, config.spaces)
    every = study.read_runs() if runs is None else list(runs)
    asked = [run for run in every if run.method in known]
    everything = candidates(every) if everything is None else everything
    tried = {run.method for run in asked}
    found = [item for item in everything if item.method in tried]
    if not found:
        wrong = {**damages(asked), **failures(asked)}
        last = f"; {list(wrong)[-1]}: {list(wrong.values())[-1]}" if wrong else ""
        raise NothingFoundError(f"no trial of {study.path} has finished yet ({_states(asked)}){last}")
    if shift and not any(item.has_shift for item in found):
        raise ConfigError(NO_SHIFT)
    for item in (*compared, *(limit.objective for limit in kept)):
        _check_recorded(item, found)
    best = front(found, compared, kept)
    again = _confirmed(everything, confirmed_results(study) if confirmed is None else confirmed)
    asked_again = [item for item in again if item.run.method in tried]
    whole = [item for item in asked_again if not item.has_failed]
    finalists = front(whole, compared, kept) or front(asked_again, compared, kept) or best
    if not finalists:
        raise NothingFoundError(_out_of_reach(found, kept))
    for listed_ in (best, finalists):
        listed_.sort(key=lambda item: item.losses(compared))
    return Selection(study, compared, kept, asked, everything, found, best or finalists, again, finalists)


def _confirmed(everything: Sequence[Candidate], results: Sequence[Result]) -> list[Candidate]:
    """Return the candidates whose trials were confirmed, by their results on new seeds."""
    of_trial = {item.label: item for item in results}
    return [
        over_new_seeds(item, own.runs, has_failed=own.failed > 0)
        for item in everything
        if (own := of_trial.get(item.label)) and len(usable(own.runs, item.eval_exits)) == len(own.runs)
    ]


def preferred(study: StudyRecord, name: str | None, *, shift: bool = False) -> Objective | None:
    """Return the objective of this name for the study's task, on corrupted images if asked to."""
    if name is None:
        return None
    found = objective(name, study.config.task)
    return found.under_shift() if shift else found


def failures(runs: Sequence[Run]) -> dict[str, str]:
    """Return by trial why it failed."""
    return {run.label: run.status.reason for run in runs if run.status and run.state == "failed"}


def _checked_weights(weights: Mapping[str, float], objectives: Sequence[Objective]) -> tuple[float, ...]:
    names = [item.name for item in objectives]
    for name, weight in weights.items():
        if name not in names:
            near = did_you_mean(name, names)
            raise ConfigError(f"a weight must be of an objective ({', '.join(names)}), got {name!r}{near}")
        if not weight >= 0 or not math.isfinite(weight):
            raise ConfigError(f"a weight must be a finite number of at least 0, got {name}={weight:g}")
    found = tuple(weights.get(name, 1.0) for name in names)
    if not any(found):
        raise ConfigError(f"some objective must have a weight above 0, got 0 for {', '.join(names)}")
    return found


def pick(
    front: Sequence[Candidate],
    objectives: Sequence[Objective],
    prefer: Objective | None = None,
    weights: Sequence[float] | None = None,
) -> Pick:
    """Pick one candidate from a front, with a reason that says what chose.

    Args:
        front: The Pareto-optimal candidates; at least one. All are confirmed, or none.
        objectives: What the front is made of.
        prefer: Take the best in this, the cheapest of equals; by default the best compromise (the knee).
        weights: How much each objective counts in the compromise; by default all count the same.
    """
    assert front, "a pick needs a front"
    seeds = len(front[0].again)
    basis = f", by means over {count(seeds, 'new seed')}" if seeds else ""
    sort = f"Pareto-optimal {'confirmed configuration' if seeds else 'candidate'}"
    if len(front) == 1:
        return Pick(front[0], f"the only {sort}{basis}: {_numbers(front[0], objectives, front)}")
    size = f"among the {count(len(front), sort)}{basis}"
    if prefer is None:
        chosen = front[knee(losses_of(front, objectives), None if weights is None else np.array(weights))]
        reason = f"best compromise of {listed(_weighted(objectives, weights))} {size}"
        return Pick(chosen, f"{reason}: {_numbers(chosen, objectives, front)}")
    chosen = min(front, key=lambda item: (prefer.loss(item.values[prefer.name]), item.values["flops"]))
    best = chosen.values[prefer.name]
    equals = sum(item.values[prefer.name] == best for item in front)
    reason = f"{'highest' if prefer.quantity.maximise else 'lowest'} {prefer.label} {size}"
    if equals > 1:
        reason += f", and the cheapest of the {equals} with this value"
    others = [item for item in objectives if item.name != prefer.name]
    numbers = [f"{prefer.label} {_shown(chosen, prefer)}", *([_numbers(chosen, others, front)] if others else [])]
    return Pick(chosen, f"{reason}: {', '.join(numbers)}")


def _weighted(objectives: Sequence[Objective], weights: Sequence[float] | None) -> list[str]:
    """Name the objectives, with the weights that are not 1: `NLL (weight 2)`."""
    given = weights or [1.0] * len(objectives)
    pairs = zip(objectives, given, strict=True)
    return [item.label if weight == 1 else f"{item.label} (weight {weight:g})" for item, weight in pairs]


def _numbers(chosen: Candidate, objectives: Sequence[Objective], front: Sequence[Candidate]) -> str:
    """List each objective's value, with the best of the front where that is another value."""
    return ", ".join(_number(chosen, item, front) for item in objectives)


def _number(chosen: Candidate, objective: Objective, front: Sequence[Candidate]) -> str:
    value = chosen.values[objective.name]
    best = min((item.values[objective.name] for item in front), key=objective.loss)
    beside = "" if len(front) == 1 else " (the best)" if value == best else f" (best {objective.show(best)})"
    return f"{objective.label} {_shown(chosen, objective)}{beside}"


def _shown(chosen: Candidate, objective: Objective) -> str:
    """Write a value, of a metric over several seeds with its standard deviation."""
    value, deviation = objective.show(chosen.values[objective.name]), chosen.deviation(objective.name)
    return value if deviation is None else f"{value} ± {deviation:.2g}"


def _known_methods(methods: Sequence[str] | None, known: Collection[str]) -> Collection[str]:
    for name in methods or ():
        if name not in known:
            near = did_you_mean(name, known)
            raise ConfigError(f"method must be one that this study searched ({', '.join(known)}), got {name!r}{near}")
    return methods or known


def _states(runs: Sequence[Run]) -> str:
    """Count how the trials ended, `2 failed, 1 unfinished`."""
    counts = trial_counts(runs).values()
    totals = {state: sum(count[state] for count in counts) for count in counts for state in count}
    return ", ".join(f"{number} {state}" for state, number in totals.items() if number) or "no trial has begun"


def _check_recorded(wanted: Objective, found: Sequence[Candidate]) -> None:
    if not any(wanted.name in item.values for item in found):
        raise ConfigError(
            f"{wanted.name} must be recorded by the study, but no finished trial has it: "
            f"search with --objectives …,{wanted.name} in a new folder, or leave it out"
        )


def _out_of_reach(found: Sequence[Candidate], kept: Sequence[Limit]) -> str:
    """Say which limits no candidate keeps, alone or together, and which candidate is nearest."""
    never = [limit for limit in kept if not any(item.keeps([limit]) for item in found)]
    if never:
        return f"no candidate is within the limits: {'; '.join(_nearest_to(limit, found) for limit in never)}"
    if not kept:
        return "candidates cannot be compared: no finished trial has all objectives"
    nearest = min(found, key=lambda item: sum(max(0.0, _violation(item, limit)) for limit in kept))
    values = ", ".join(_value(limit.objective, nearest) for limit in kept)
    together = " and ".join(map(str, kept))
    return f"no candidate is within the limits: none keeps {together} at once; the nearest has {values}"


def _nearest_to(limit: Limit, found: Sequence[Candidate]) -> str:
    nearest = min(found, key=lambda item: _violation(item, limit))
    return f"none keeps {limit}; the nearest has {_value(limit.objective, nearest)}"


def _violation(item: Candidate, limit: Limit) -> float:
    return limit.violation(item.values.get(limit.objective.name, math.inf if limit.is_maximum else -math.inf))


def _value(objective: Objective, item: Candidate) -> str:
    where = f"{item.label} at {count(item.eval_exits, 'exit')}"
    return f"{objective.name} {objective.show(item.values[objective.name])} ({where})"
