"""Configurations that are compared sample by sample: their runs, predictions and temperature scaling.

Each run has its own temperature, fitted on its validation predictions by the one rule of `sae.analysis.temperature`.
A temperature that reached its bound is not applied: the predictions stay unscaled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sae.analysis.curves import Curve, ReliabilityBin
from sae.analysis.run_list import check_folder, find_runs
from sae.analysis.sample_metrics import SAMPLE_METRICS, confidence_bins, one_by_one
from sae.analysis.statistics import SCALED, Spread, spread_of
from sae.analysis.temperature import Temperature, fit_temperature, tempered
from sae.config.run import RunConfig
from sae.config.settings import differences
from sae.core.errors import ConfigError, RecordError
from sae.core.objectives import NUM_BINS, TaskName
from sae.records.evaluation import best_exits
from sae.records.predictions import Numbers, Predictions, SplitPredictions
from sae.records.run import RunRecord

CHANGED: Mapping[TaskName, tuple[str, ...]] = {
    "classification": ("nll", "ece", "cc_ece", "brier"),
    "regression": ("nll",),
}
"""Metrics that a temperature changes; it never changes which class is the most probable."""


@dataclass(frozen=True)
class Contestant:
    """A configuration that is compared: its runs, one per seed, at a number of exits.

    Attributes:
        name: Name for tables and messages.
        runs: The kept predictions of each run.
        eval_exits: K′ of each run.
        seeds: Seed of each run, if they are known.
        config: How the first was trained, if that is known.
    """

    name: str
    runs: tuple[Predictions, ...]
    eval_exits: tuple[int, ...]
    seeds: tuple[int, ...] = ()
    config: RunConfig | None = None

    @property
    def task(self) -> TaskName:
        """The task of its first run; `check_same_samples` compares the others."""
        return self.runs[0].task

    @property
    def has_members(self) -> bool:
        """Whether it is a deep ensemble, whose members were kept."""
        return all(run.val.members is not None and run.test.members is not None for run in self.runs)

    def test_numbers(self, name: str) -> list[Numbers]:
        """Return each run's test predictions for a metric: raw, or after temperature scaling."""
        return [
            scaled(run.task, run.val.readings[exits], run.val, run.test.readings[exits])
            if name.endswith(SCALED)
            else run.test.readings[exits]
            for run, exits in zip(self.runs, self.eval_exits, strict=True)
        ]


def read_contestant(paths: Sequence[Path], eval_exits: int | None = None, *, as_trained: bool = False) -> Contestant:
    """Read the runs of a configuration, one for each seed, with their predictions.

    Args:
        paths: Run folders, or folders that hold run folders.
        eval_exits: K′; by default the best on validation.
        as_trained: Read them at their trained K instead.
    """
    records = [record for path in paths for record in _runs_in(path)]
    configs = [record.read_config() for record in records]
    for record, config in zip(records[1:], configs[1:], strict=True):
        other = differences(_with_seed_of(configs[0], config), config)
        if other:
            raise ConfigError(
                f"the runs of one side must differ in nothing but their seed, but {record.path} differs from "
                f"{records[0].path} ({'; '.join(other[:3])}): compare them as two sides"
            )
    seeds = [config.seed for config in configs]
    if len(set(seeds)) < len(seeds):
        raise ConfigError(f"the runs of one side must have different seeds, got {', '.join(map(str, seeds))}")
    runs = tuple(Predictions.read(record) for record in records)
    if eval_exits is None:
        found = [record.read_evaluation() for record in records]
        eval_exits = found[0].exits if as_trained else best_exits(found)
    return Contestant(str(paths[0]), runs, (eval_exits,) * len(runs), tuple(seeds), configs[0])


def _with_seed_of(config: RunConfig, other: RunConfig) -> RunConfig:
    """Return the config with the seed of another; each seed may have a teacher of its own."""
    teacher = config.teacher
    if teacher and other.teacher:
        teacher = teacher.model_copy(update={"run": other.teacher.run})
    return config.model_copy(update={"seed": other.seed, "teacher": teacher})


def _runs_in(path: Path) -> list[RunRecord]:
    """Return the finished runs at or below a folder."""
    check_folder(path)
    found = [RunRecord.open(record.path) for record in find_runs(path)]
    if not found:
        raise RecordError(f"{path} is not a run folder and holds none")
    return found


def check_same_samples(rivals: Sequence[Contestant]) -> None:
    """Refuse runs that cannot be compared sample by sample."""
    first = rivals[0].runs[0]
    for rival in rivals:
        for run, exits in zip(rival.runs, rival.eval_exits, strict=True):
            if run.task != first.task or run.test.samples != first.test.samples:
                raise ConfigError(
                    f"runs that are compared must have the same test samples, but {rival.name} and {rivals[0].name} "
                    f"have different ones: use the same data and data.split_seed"
                )
            if exits not in run.test.readings:
                known = ", ".join(map(str, run.test.readings))
                raise ConfigError(f"{rival.name} must be read at one of its numbers of exits, {known}; got {exits}")


def scaled(task: TaskName, fitted_on: Numbers, val: SplitPredictions, numbers: Numbers) -> Numbers:
    """Return test predictions after temperature scaling.

    Args:
        task: Decides what the numbers mean.
        fitted_on: Validation predictions of the same network, to fit the temperature on.
        val: The validation split, for its targets.
        numbers: Its test predictions.
    """
    return tempered(task, numbers, fit_temperature(task, fitted_on, val.targets).value)


@dataclass(frozen=True)
class Scaling:
    """A configuration after temperature scaling.

    Attributes:
        temperatures: The fitted temperature of each run.
        metrics: Test metrics after scaling, over seeds.
        reliability: Its reliability on the test split after scaling; None for regression.
    """

    temperatures: tuple[Temperature, ...]
    metrics: Mapping[str, Spread]
    reliability: Curve[ReliabilityBin] | None

    @property
    def applied(self) -> Spread:
        """The temperatures that were applied, over seeds."""
        found = spread_of(item.value for item in self.temperatures)
        assert found is not None, "a temperature is finite"
        return found

    @property
    def num_samples(self) -> int:
        """Validation samples that each temperature was fitted on."""
        return self.temperatures[0].num_samples

    @property
    def num_bounded(self) -> int:
        """Runs whose temperature reached its bound, and was not applied."""
        return sum(item.is_bounded for item in self.temperatures)


def scale(kept: Contestant) -> Scaling:
    """Scale the test predictions of every run by a temperature fitted on its validation predictions."""
    task, fitted = kept.task, []
    scaled: list[tuple[Numbers, NDArray[np.number]]] = []
    for run, exits in zip(kept.runs, kept.eval_exits, strict=True):
        temperature = fit_temperature(task, run.val.readings[exits], run.val.targets)
        fitted.append(temperature)
        scaled.append((tempered(task, run.test.readings[exits], temperature.value), run.test.targets))
    metrics = {
        name: spread
        for name in CHANGED[task]
        if (spread := spread_of(SAMPLE_METRICS[task][name].value(*pair) for pair in scaled)) is not None
    }
    return Scaling(tuple(fitted), metrics, _reliability(scaled) if task == "classification" else None)


def _reliability(predictions: Sequence[tuple[Numbers, NDArray[np.number]]]) -> Curve[ReliabilityBin]:
    """Pool the samples of all seeds in bins (lo, hi] of their confidence; each of several labels counts as a sample."""
    predictions = [one_by_one(*pair) if pair[1].ndim == 2 else pair for pair in predictions]
    confidence, bins = map(np.concatenate, zip(*(confidence_bins(numbers) for numbers, _ in predictions), strict=True))
    is_right = np.concatenate([numbers.argmax(axis=1) == targets for numbers, targets in predictions])
    count = np.bincount(bins, minlength=NUM_BINS)
    sums = [np.bincount(bins, weights=values, minlength=NUM_BINS) for values in (confidence, is_right)]
    points = tuple(
        ReliabilityBin(
            index / NUM_BINS,
            (index + 1) / NUM_BINS,
            int(count[index]),
            *(float(total[index] / count[index]) if count[index] else None for total in sums),
        )
        for index in range(NUM_BINS)
    )
    return Curve(points, len(predictions), 0)
