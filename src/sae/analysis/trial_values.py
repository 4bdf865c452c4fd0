"""The trials of a study at the K they were trained for, read once: settings, and what every split says."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sae.analysis.candidates import check_report, kind_of, measured_costs, summary
from sae.analysis.results import Split, Where, found_at, shifted_at, trained_exits
from sae.config.run import RunConfig
from sae.core.errors import RecordError
from sae.core.objectives import COSTS
from sae.records.study import DAMAGED, Trial

Measured = Split | Where
"""Validation, test, or the 95 corrupted versions of test."""
EVALUATED: tuple[Split, ...] = ("val", "test")
"""What every finished trial is evaluated on."""


@dataclass(frozen=True)
class TrialValues:
    """A trial at its trained K.

    Attributes:
        trial: Which.
        config: How it was, or was to be, trained.
        state: What became of it, see `Trial.state`; `damaged` also where its results cannot be read.
        metrics: By split; only finished trials have any.
        costs: Counted and measured ones; the same.
        seconds: Of training, where it ended.
    """

    trial: Trial
    config: RunConfig
    state: str
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def kind(self) -> str:
        """The class of method."""
        return kind_of(self.config)

    @property
    def settings(self) -> str:
        """What people tell it from others by."""
        return summary(self.config)

    def get(self, name: str, where: Measured = "val") -> float | None:
        """A metric, measured there, or a cost, which is the same everywhere; None if it was not recorded."""
        return self.costs[name] if name in self.costs else self.metrics.get(where, {}).get(name)


def read_trials(trials: Iterable[Trial]) -> list[TrialValues]:
    """All trials with settings that can be read, whatever became of them."""
    found = []
    for trial in trials:
        try:
            config = trial.run.config
        except RecordError:
            continue
        found.append(_read(trial, config))
    return found


def _read(trial: Trial, config: RunConfig) -> TrialValues:
    state = trial.state
    if state == DAMAGED:
        return TrialValues(trial, config, state)
    seconds = (trial.run.status or {}).get("seconds")
    if state != "finished":
        return TrialValues(trial, config, state, seconds=seconds)
    try:
        metrics, costs = _read_results(trial, trained_exits(config))
    except RecordError:
        return TrialValues(trial, config, DAMAGED, seconds=seconds)
    return TrialValues(trial, config, state, metrics, costs, seconds)


def _read_results(trial: Trial, exits: int) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """What is on corrupted sets may be missing or damaged; what chooses may not."""
    for split in EVALUATED:
        check_report(trial.run, split)
    reports: dict[str, dict[str, Any] | None] = {split: found_at(trial.run.report(split), exits) for split in EVALUATED}
    with suppress(RecordError):
        reports["shift"] = shifted_at(trial.run, exits)
    metrics = {split: item["metrics"] for split, item in reports.items() if item is not None}
    counted = reports["val"] or {}
    costs = {key: counted[key] for key in COSTS if key in counted} | measured_costs(trial.run).get(exits, {})
    return metrics, costs
