"""Configurations that are compared sample by sample: their runs, read from folders, and their predictions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sae.analysis.run_list import find_runs
from sae.analysis.temperature import fit_temperature, tempered
from sae.analysis.verdicts import SCALED
from sae.config.run import RunConfig
from sae.config.settings import differences
from sae.core.errors import ConfigError, RecordError
from sae.core.objectives import TaskName
from sae.records.predictions import Numbers, Predictions, SplitPredictions
from sae.records.run import RunRecord


@dataclass(frozen=True)
class Contestant:
    """A configuration that is compared: its runs, one per seed, at a number of exits.

    Attributes:
        name: For tables and messages.
        runs: The kept predictions of each run.
        eval_exits: K′ of each run.
        seeds: Seed of each run, if they are known.
    """

    name: str
    runs: tuple[Predictions, ...]
    eval_exits: tuple[int, ...]
    seeds: tuple[int, ...] = ()

    @property
    def task(self) -> TaskName:
        """The task of its first run; `check_same_samples` compares the others."""
        return self.runs[0].task

    @property
    def has_members(self) -> bool:
        """Whether it is a deep ensemble, whose members were kept."""
        return all(run.val.members is not None and run.test.members is not None for run in self.runs)

    def test_numbers(self, name: str) -> list[Numbers]:
        """Return for each run the test predictions that a metric is about: raw, or after temperature scaling."""
        return [
            scaled(run.task, run.val.readings[exits], run.val, run.test.readings[exits])
            if name.endswith(SCALED)
            else run.test.readings[exits]
            for run, exits in zip(self.runs, self.eval_exits, strict=True)
        ]


def read_contestant(paths: Sequence[Path], eval_exits: int | None = None) -> Contestant:
    """Read the runs of a configuration, one for each seed, with their predictions.

    Args:
        paths: Run folders, or folders that hold run folders.
        eval_exits: K′ to read them at; by default the trained K.
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
    exits = [record.read_evaluation().exits if eval_exits is None else eval_exits for record in records]
    return Contestant(str(paths[0]), runs, tuple(exits), tuple(seeds))


def _with_seed_of(config: RunConfig, other: RunConfig) -> RunConfig:
    """Return the config with the seed of another; each seed may have a teacher of its own."""
    teacher = config.teacher
    if teacher and other.teacher:
        teacher = teacher.model_copy(update={"run": other.teacher.run})
    return config.model_copy(update={"seed": other.seed, "teacher": teacher})


def _runs_in(path: Path) -> list[RunRecord]:
    """Return the finished runs at or below a folder."""
    if not path.is_dir():
        raise RecordError(f"{path} {'is not a folder' if path.exists() else 'does not exist'}")
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
                    f"have others: use the same data and data.split_seed"
                )
            if exits not in run.test.readings:
                known = ", ".join(map(str, run.test.readings))
                raise ConfigError(f"{rival.name} must be read at one of its numbers of exits, {known}; got {exits}")


def scaled(task: TaskName, fitted_on: Numbers, val: SplitPredictions, numbers: Numbers) -> Numbers:
    """Return test predictions after temperature scaling.

    Args:
        task: Decides what the numbers mean.
        fitted_on: Validation predictions of the same network, which the temperature is fitted on.
        val: The validation split, for its targets.
        numbers: Its test predictions.
    """
    return tempered(task, numbers, fit_temperature(task, fitted_on, val.targets).value)
