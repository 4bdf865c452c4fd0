"""A study as somebody asks about it: with these objectives, within these limits, of these methods."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sae.analysis.candidates import Candidate, candidates, damages, front
from sae.analysis.picking import pick
from sae.analysis.progress import grid_counts, hypervolume_history, trial_counts
from sae.core.errors import ConfigError, NothingFoundError, did_you_mean
from sae.core.objectives import Limit, Objective, limits, objective, objectives
from sae.core.wording import count
from sae.records.study import StudyRecord, Trial


@dataclass(frozen=True)
class Selection:
    """What a study has to offer of what was asked for; the front is never empty.

    Attributes:
        objectives: What configurations are compared by.
        limits: What those of the front keep.
        trials: All trials of the methods asked for, whatever became of them.
        everything: Candidates of all methods.
        candidates: Those of the methods asked for.
        front: Those of them that keep all limits and that none beats, the best in the first objective first.
    """

    objectives: tuple[Objective, ...]
    limits: tuple[Limit, ...]
    trials: list[Trial]
    everything: list[Candidate]
    candidates: list[Candidate]
    front: list[Candidate]

    def history(self) -> list[dict[str, Any]]:
        """The hypervolume after each trial; losses are scaled by all methods, so that these may be compared."""
        return hypervolume_history(self.trials, self.candidates, self.objectives, self.limits, self.everything)

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        history = self.history()
        return {
            "objectives": [item.name for item in self.objectives],
            "max": {limit.objective.name: limit.bound for limit in self.limits if limit.is_maximum},
            "min": {limit.objective.name: limit.bound for limit in self.limits if not limit.is_maximum},
            "front": [item.describe() for item in self.front],
            "hypervolume": history[-1]["hypervolume"],
            "history": history,
            "trials": trial_counts(self.trials),
            "grid": grid_counts(self.trials),
            "damaged": damages(self.trials, self.everything),
            "failed": failures(self.trials),
        }

    def pick(self, prefer: Objective | None = None) -> tuple[Candidate, str]:
        """The one to take, and why."""
        return pick(self.front, self.objectives, prefer)

    def best_of(self, method: str, chosen: Candidate) -> Candidate | None:
        """A method's best by the first objective, to stand beside what was chosen; None if that is of it, or none is.

        Limits do not count here: who cannot afford an ensemble still wants to know what it would give.
        """
        first = self.objectives[0]
        of_method = [item for item in self.everything if item.trial.method == method]
        found = [item for item in of_method if math.isfinite(item.values.get(first.name, math.nan))]
        if not found or chosen.trial.method == method:
            return None
        return min(found, key=lambda item: first.loss(item.values[first.name]))


def select(
    study: StudyRecord,
    *,
    names: Sequence[str] | None = None,
    prefer: str | None = None,
    maximum: Mapping[str, float] | None = None,
    minimum: Mapping[str, float] | None = None,
    methods: Sequence[str] | None = None,
) -> Selection:
    """Choose from a study, by what validation says.

    Args:
        study: Where to choose from.
        names: What to compare configurations by; by default the study's objectives.
        prefer: One more objective, unless it is among them already.
        maximum: Limits in place of the study's, or beside them.
        minimum: The same.
        methods: Those to choose from; by default all.
    """
    config = study.config
    compared = objectives(dict.fromkeys([*(names or config.objectives), *([prefer] if prefer else [])]), config.task)
    kept = limits({**config.max, **(maximum or {})}, {**config.min, **(minimum or {})}, config.task)
    trials = [trial for trial in study.trials() if trial.method in _known_methods(methods, config.spaces)]
    everything = candidates(study)
    found = [item for item in everything if item.trial.method in {trial.method for trial in trials}]
    if not found:
        wrong = {**damages(trials, everything), **failures(trials)}
        last = f"; {list(wrong)[-1]}: {list(wrong.values())[-1]}" if wrong else ""
        raise NothingFoundError(f"nothing finished yet in {study.path}: {_states(trials)}{last}")
    for item in (*compared, *(limit.objective for limit in kept)):
        _check_recorded(item, found)
    best = front(found, compared, kept)
    if not best:
        raise NothingFoundError(_out_of_reach(found, kept))
    best.sort(key=lambda item: item.losses(compared))
    return Selection(compared, kept, trials, everything, found, best)


def preferred(study: StudyRecord, name: str | None) -> Objective | None:
    """The objective of this name, of the study's task."""
    return None if name is None else objective(name, study.config.task)


def _known_methods(methods: Sequence[str] | None, known: Mapping[str, Any]) -> Sequence[str]:
    for name in methods or ():
        if name not in known:
            near = did_you_mean(name, known)
            raise ConfigError(f"a method must be one of this study's, {', '.join(known)}; got {name!r}{near}")
    return methods or list(known)


def failures(trials: Sequence[Trial]) -> dict[str, str]:
    """By trial, why it failed."""
    failed = (trial for trial in trials if trial.state == "failed")
    return {trial.name: str((trial.run.status or {}).get("error", "the reason was not recorded")) for trial in failed}


def _states(trials: Sequence[Trial]) -> str:
    """What became of the trials, `2 failed, 1 unfinished`."""
    counts = trial_counts(trials).values()
    totals = {state: sum(count[state] for count in counts) for count in counts for state in count}
    return ", ".join(f"{number} {state}" for state, number in totals.items() if number) or "no trial has begun"


def _check_recorded(wanted: Objective, found: Sequence[Candidate]) -> None:
    if not any(wanted.name in item.values for item in found):
        advice = f"search with --objectives …,{wanted.name} in a new folder, or leave it out"
        raise ConfigError(f"{wanted.name} must be recorded by the study, however no finished trial has it: {advice}")


def _out_of_reach(found: Sequence[Candidate], kept: Sequence[Limit]) -> str:
    """Which limits nothing keeps, or keeps together, and how near the study came."""
    never = [limit for limit in kept if not any(item.keeps([limit]) for item in found)]
    if never:
        return f"nothing is within the limits: {'; '.join(_nearest_to(limit, found) for limit in never)}"
    if not kept:
        return "nothing can be compared: no finished trial has all of the objectives"
    nearest = min(found, key=lambda item: sum(max(0.0, _violation(item, limit)) for limit in kept))
    values = ", ".join(_value(limit.objective, nearest) for limit in kept)
    together = " and ".join(map(str, kept))
    return f"nothing is within the limits: no configuration keeps {together} at once; the nearest has {values}"


def _nearest_to(limit: Limit, found: Sequence[Candidate]) -> str:
    nearest = min(found, key=lambda item: _violation(item, limit))
    return f"no configuration keeps {limit}; the nearest has {_value(limit.objective, nearest)}"


def _violation(item: Candidate, limit: Limit) -> float:
    return limit.violation(item.values.get(limit.objective.name, math.inf if limit.is_maximum else -math.inf))


def _value(objective: Objective, item: Candidate) -> str:
    where = f"{item.trial.name} at {count(item.eval_exits, 'exit')}"
    return f"{objective.name} {objective.show(item.values[objective.name])} ({where})"
