"""What a study has to offer: every finished trial at every number of exits, and the best of these."""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from sae.analysis.pareto import Losses, non_dominated
from sae.config.methods import METHODS
from sae.config.run import RunConfig
from sae.core.errors import RecordError
from sae.core.objectives import COSTS, MEASURED_COSTS, SHIFTED, Limit, Objective
from sae.records.run import RunRecord
from sae.records.study import DAMAGED, StudyRecord, Trial

SHIFTED_VALIDATION = "shift-val.json"
"""Metrics of a trial on the corrupted validation sets that objectives may use, at every number of exits."""
SHIFTED_TEST = "shift-test.json"
"""A run on the 95 corrupted test sets, at every number of exits."""


@dataclass(frozen=True)
class Candidate:
    """A trained network at K′ exits.

    Attributes:
        trial: Where it comes from.
        config: How it was trained.
        exits: K, exits per input that it was trained for.
        eval_exits: K′, exits per input that it is to predict with.
        active: How many inputs use each exit then.
        values: All validation metrics and costs, by the names of objectives.
        ended: When the trial ended, in seconds since 1970.
    """

    trial: Trial
    config: RunConfig
    exits: int
    eval_exits: int
    active: tuple[int, ...]
    values: dict[str, float]
    ended: float

    @property
    def kind(self) -> str:
        """The class of method it belongs to, by its trained N and K."""
        return kind_of(self.config)

    def losses(self, objectives: Sequence[Objective]) -> list[float]:
        """On the scale on which differences are weighed; NaN for what was not recorded of it."""
        return [objective.scaled_loss(self.values.get(objective.name, math.nan)) for objective in objectives]

    def keeps(self, limits: Iterable[Limit]) -> bool:
        """Whether every limit is known to hold."""
        return all(limit.violation(self.values.get(limit.objective.name, math.nan)) <= 0 for limit in limits)

    def describe(self) -> dict[str, Any]:
        """As JSON; the run by its path."""
        return {
            "trial": self.trial.name,
            "run": str(self.trial.run.path),
            "method": self.trial.method,
            "kind": self.kind,
            "exits": self.exits,
            "eval_exits": self.eval_exits,
            "active": list(self.active),
            "settings": summary(self.config),
            "values": self.values,
        }


def candidates(study: StudyRecord) -> list[Candidate]:
    """Every finished trial at every K′, in the order in which the trials ended; others are left out.

    So are trials whose files are damaged, which `damages` tells of: one of them must not hide the rest.
    """
    found = []
    for trial in study.trials():
        if trial.state == "finished":
            with suppress(RecordError):
                found += candidates_of(trial)
    return sorted(found, key=lambda item: (item.ended, item.trial.method, item.trial.number))


def damages(trials: Iterable[Trial], found: Iterable[Candidate]) -> dict[str, str]:
    """By trial, why it is left out of what was found although it ended, with what to do."""
    present = {item.trial.name for item in found}
    told = {}
    for trial in trials:
        if trial.name not in present and trial.state in ("finished", DAMAGED):
            try:
                _ = trial.run.status, candidates_of(trial)
            except RecordError as error:
                told[trial.name] = str(error)
    return told


def candidates_of(trial: Trial) -> list[Candidate]:
    """One finished trial at every K′, by what validation says; a file of which only a half is right is damaged."""
    config, report = trial.run.config, trial.run.report("val")
    ended = (trial.run.status or {}).get("ended", 0.0)
    shifted, measured = shifted_metrics(trial.run), measured_costs(trial.run)
    check_report(trial.run, "test")
    with trial.run.expecting(trial.run.METRICS):
        return [
            Candidate(
                trial,
                config,
                report["exits"],
                item["exits"],
                tuple(item["active"]),
                {
                    **item["metrics"],
                    **{key: item[key] for key in COSTS if key in item},  # older runs have no shipped ones
                    **shifted.get(item["exits"], {}),
                    **measured.get(item["exits"], {}),
                },
                ended,
            )
            for item in report["by_exits"]
        ]


def check_report(run: RunRecord, split: str) -> None:
    """Refuse a run whose metrics of a split are not what they should be."""
    report = run.report(split)
    with run.expecting(run.METRICS):
        _ = [(item["exits"], dict(item["metrics"])) for item in report["by_exits"]]


def shifted_metrics(run: RunRecord) -> dict[int, dict[str, float]]:
    """By K′, the metrics on corrupted validation data, where the study asked for them."""
    if not (run.path / SHIFTED_VALIDATION).exists():
        return {}
    with run.expecting(SHIFTED_VALIDATION):
        return {
            item["exits"]: {f"{key}{SHIFTED}": value for key, value in item["metrics"].items()}
            for item in run.read_json(SHIFTED_VALIDATION)["by_exits"]
        }


def measured_costs(run: RunRecord) -> dict[int, dict[str, float]]:
    """By K′, the latency of the exported network, where the study asked for it."""
    if not (run.path / run.LATENCY).exists():
        return {}
    with run.expecting(run.LATENCY):
        return {
            item["exits"]: {key: item[key] for key in MEASURED_COSTS} for item in run.read_json(run.LATENCY)["by_exits"]
        }


def losses_of(found: Sequence[Candidate], objectives: Sequence[Objective]) -> Losses:
    """(candidate, objective), less is better."""
    return np.array([item.losses(objectives) for item in found], dtype=np.float64).reshape(-1, len(objectives))


def front(found: Sequence[Candidate], objectives: Sequence[Objective], limits: Sequence[Limit] = ()) -> list[Candidate]:
    """Those that keep all limits and that none beats, each point once.

    Of candidates with equal values the first at its trained K is kept, else the first.
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
    """By class of methods, the front among its own; classes of which nothing keeps the limits are left out."""
    kinds = dict.fromkeys(item.kind for item in found)
    fronts = {kind: front([item for item in found if item.kind == kind], objectives, limits) for kind in kinds}
    return {kind: best for kind, best in fronts.items() if best}


def kind_of(config: RunConfig) -> str:
    """Return the class of methods that a run belongs to: SE, EE, MIMO, … for an SAE, else the method's name."""
    method = config.method
    kind, known = method.kind(config.backbone.depth), [item.key for item in METHODS.get(method.name).kinds]
    assert kind in known, f"{type(method).__name__}.kind must return one of {', '.join(known)}, got {kind!r}"
    return kind


def summary(config: RunConfig) -> str:
    """Return the settings by which people tell configurations apart, `N=2 K=3 W=4`.

    A method that chooses among exits has all stages of its backbone unless the summary says otherwise.
    """
    method, backbone = config.method, config.backbone
    with_depth = not (method.has_exits and backbone.is_whole)
    return " ".join([*method.summary(), *backbone.summary(with_depth=with_depth)])
