"""Study folders: the settings of a search, Optuna's storage, and a run folder for every trial."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Self

from sae.config.backbones import BACKBONES
from sae.config.methods import METHODS
from sae.config.run import RunConfig
from sae.config.settings import later, section_name
from sae.config.study import StudyConfig
from sae.core.collection import paused_collection
from sae.core.errors import MissingPluginError, NotRegisteredError
from sae.core.objectives import Limit, Objective, limits, objectives
from sae.records.baselines import Baselines
from sae.records.evaluation import Part
from sae.records.folder import LOCK, Folder, Record
from sae.records.run import Run, RunRecord, read_run
from sae.records.shipped import shipped_files


class MeanAndStd(Part):
    """Mean and standard deviation over seeds; one seed has no deviation."""

    mean: float
    std: float | None


class ConfirmedItem(Part):
    """A configuration that was trained again on other seeds, at K′ exits.

    Attributes:
        trial: The trial it comes from, `sae/12`.
        run: The trial's run folder, as it was written when the study was confirmed.
        method: What was trained.
        kind: The class of methods it belongs to.
        exits: K.
        eval_exits: K′.
        active: Number of inputs that use each exit, in the trial.
        settings: The settings that distinguish it, `N=2 K=3 W=4`.
        values: Validation metrics and costs of the trial; counted costs stay whole numbers.
        confirmed_in: The run folders of the other seeds.
        seeds: Seeds that finished.
        failed: Seeds that did not.
        test: Metrics on the test split.
        costs: Counted and measured costs.
        shift: Means over the corrupted test sets, if they were measured.
        shift_std_over_sets: Standard deviations over these sets.
        seconds: Training time.
    """

    trial: str
    run: str
    method: str
    kind: str
    exits: int
    eval_exits: int
    active: tuple[int, ...]
    settings: str
    values: Mapping[str, int | float]
    confirmed_in: tuple[str, ...]
    seeds: int
    failed: int
    test: Mapping[str, MeanAndStd]
    costs: Mapping[str, MeanAndStd]
    shift: Mapping[str, MeanAndStd] | None
    shift_std_over_sets: Mapping[str, MeanAndStd] | None
    seconds: MeanAndStd | None


class Confirmed(Part):
    """The configurations of a study that were trained again: `confirmed.json`.

    Attributes:
        objectives: What the study optimises.
        seeds: The other seeds.
        front: One item per configuration and K′ that was chosen on clean validation data.
        shifted: Those that were chosen on corrupted validation images; None if none could be. A configuration that both
            chose is in both, and its runs are the same.
        distilled: Those that were trained with the best ensemble as teacher; None if that was not asked for.
    """

    objectives: tuple[str, ...]
    seeds: tuple[int, ...]
    front: tuple[ConfirmedItem, ...]
    shifted: tuple[ConfirmedItem, ...] | None = later(None)
    distilled: tuple[ConfirmedItem, ...] | None = later(None)


class Clock(Part):
    """Time spent on a study over all sessions: `clock.json`.

    Attributes:
        seconds: From the start to the end of each session.
        by_method: Seconds that workers spent on the trials of each method; older studies did not record it.
    """

    seconds: float
    by_method: Mapping[str, float] = {}


class Plan(Part):
    """What the latest session of a study was to do: `plan.json`. Studies of older versions have none.

    Attributes:
        trials: Planned trials over all sessions; None if only time limits them.
        again: Planned runs on other seeds; None before they are chosen, and if none are.
        is_done: Whether everything has ended; a session that was interrupted leaves it false.
    """

    trials: int | None
    again: int | None = None
    is_done: bool = False


class StudyRecord(Record[StudyConfig]):
    """One study folder.

    Attributes:
        config: The settings that the study was begun with.
        objectives: What is optimised.
        limits: What a configuration has to keep.
    """

    KIND, MAKER = "study", "sae search"
    MARK = "# The resolved settings of a study of sae."
    CONFIG, STORAGE, CLOCK, CONFIRMED = "study.yaml", "optuna.db", "clock.json", "confirmed.json"
    PLAN, BASELINES = "plan.json", "baselines.json"
    TRIALS, CONFIRM, DISTILLED, SHIPPED, REPORT = "trials", "confirm", "distilled", "shipped", "report.html"
    SLURM = "slurm"
    """What the driver of a search exchanges with the tasks of a SLURM cluster."""
    FILES = (
        CONFIG,
        STORAGE,
        f"{STORAGE}-journal",
        CLOCK,
        PLAN,
        BASELINES,
        CONFIRMED,
        SLURM,
        TRIALS,
        CONFIRM,
        DISTILLED,
        SHIPPED,
        REPORT,
    )
    MODEL, RECEIPT = "model.onnx", "receipt.json"
    """Files of the shipped model."""
    RETRAIN: ClassVar[str] = "delete this run folder, and the same search trains it again"
    REMAKE: ClassVar[str] = "delete it, and the command that made it makes it again"

    config: StudyConfig
    objectives: tuple[Objective, ...]
    limits: tuple[Limit, ...]

    @classmethod
    def create(cls, path: Path, config: StudyConfig, *, force: bool = False) -> Self:
        """Return the record of this config at this path: a new one, or what an earlier command left there."""
        record = cls(path)
        record.make(config, force=force)
        return record._with(config)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the record of a study that was begun."""
        record = cls(path)
        return record._with(record.read_config())

    def _with(self, config: StudyConfig) -> Self:
        self.config = config
        self.objectives = objectives(config.objectives, config.task)
        self.limits = limits(config.max, config.min, config.task)
        return self

    @property
    def data_name(self) -> str:
        """The name or path of the study's data set."""
        return next(str(section_name(space.get("data"))) for space in self.config.spaces.values())

    @property
    def target(self) -> str | None:
        """The column that is predicted, if the data name it."""
        data = next(iter(self.config.spaces.values())).get("data")
        target = data.get("target") if isinstance(data, Mapping) else None
        return target if isinstance(target, str) else None

    def read_config(self) -> StudyConfig:
        """Read the settings that the study was begun with; its methods and backbones must be installed."""
        config = self._parse_config(StudyConfig)
        try:
            for method, space in config.spaces.items():
                METHODS.get(method)
                BACKBONES.get(section_name(space.get("backbone")))
        except NotRegisteredError as error:
            raise MissingPluginError(self.path, error) from None
        return config

    def read_seconds(self) -> float:
        """Read the time spent on the study so far, over all sessions."""
        return self.read_clock().seconds

    def read_clock(self) -> Clock:
        """Read the time spent on the study so far, over all sessions, and on each method."""
        return self.find_model(self.CLOCK, Clock) or Clock(seconds=0.0)

    def write_clock(self, clock: Clock) -> None:
        """Record the time spent on the study so far."""
        self.write_json(self.CLOCK, clock.model_dump(mode="json"))

    def read_plan(self) -> Plan | None:
        """Read what the study is to do; None for a study of an older version."""
        return self.find_model(self.PLAN, Plan)

    def write_plan(self, plan: Plan) -> None:
        """Record what the study is to do."""
        self.write_json(self.PLAN, plan.model_dump(mode="json"))

    def read_baselines(self) -> Baselines | None:
        """Read what simple baselines reach on the study's data; None if they were not measured."""
        return self.derived().find_model(self.BASELINES, Baselines)

    def write_baselines(self, baselines: Baselines) -> None:
        """Record what simple baselines reach, on one line, because there is a number for each sample."""
        self.write_text(self.BASELINES, baselines.model_dump_json() + "\n")

    def num_again(self) -> int:
        """Count the runs on other seeds that have ended."""
        folders = (self.path / name for name in (self.CONFIRM, self.DISTILLED))
        return sum(1 for folder in folders for _ in folder.glob(f"*/*/seed-*/{RunRecord.STATUS}"))

    def read_confirmed(self) -> Confirmed | None:
        """Read what was trained again on other seeds; None if nothing was."""
        return self.derived().find_model(self.CONFIRMED, Confirmed)

    def derived(self, *parts: str) -> Folder:
        """Return this folder, or one in it, with advice for files that can be made again."""
        return Folder(self.path.joinpath(*parts), self.REMAKE)

    def trial(self, method: str, number: int, config: RunConfig) -> RunRecord:
        """Return the run folder of a trial; the same number and config always have the same folder."""
        folder = self.path / self.TRIALS / method / f"{number:05d}-{config_hash(config)}"
        return RunRecord(folder, self.RETRAIN, f"{method}/{number}")

    def trials(self) -> Iterator[RunRecord]:
        """Yield the run folders of all trials that have begun, by method and number."""
        for method in sorted(_folders(self.path / self.TRIALS)):
            place = self.path / self.TRIALS / method
            for name in sorted(_folders(place)):  # texts, because paths are slow, and there may be thousands
                number, dash, _ = name.partition("-")
                if dash and number.isdecimal() and _may_hold_a_run(f"{place}/{name}"):
                    yield RunRecord(place / name, self.RETRAIN, f"{method}/{int(number)}")

    def read_runs(self, *, with_shift: bool = False) -> list[Run]:
        """Read every trial once, by method and number; with results on corrupted test sets if asked to."""
        with paused_collection():
            return [read_run(record, with_shift=with_shift) for record in self.trials()]

    def confirmed_run(self, trial: Path, seed: int) -> RunRecord:
        """Return the run folder that confirms a trial on another seed, wherever the study is now.

        Args:
            trial: The trial's run folder; only its last two parts count.
            seed: The other seed.
        """
        method, folder = trial.parts[-2:]
        return RunRecord(self.path / self.CONFIRM / method / folder / f"seed-{seed}")

    def distilled_run(self, trial: Path, seed: int) -> RunRecord:
        """Return the run folder of a trial that learns from the best ensemble, on another seed."""
        method, folder = trial.parts[-2:]
        return RunRecord(self.path / self.DISTILLED / method / folder / f"seed-{seed}")

    def own_files(self) -> Iterator[Path]:
        """Yield the files of a study: what was derived from its trials before the trials, its settings last."""
        yield from (self.path / name for name in self.FILES if name != self.CONFIG)
        yield from shipped_files(self.path / self.SHIPPED)
        for place, pattern in (
            (self.DISTILLED, "*/[0-9]*-*/seed-*"),
            (self.CONFIRM, "*/[0-9]*-*/seed-*"),
            (self.TRIALS, "*/[0-9]*-*"),
        ):
            for folder in (self.path / place).glob(pattern):
                yield from RunRecord(folder).own_files()
                yield folder / LOCK
        yield self.path / self.CONFIG


def _folders(place: Path) -> list[str]:
    """Return the names of what is in a folder; nothing if it is missing, no folder, or may not be looked into."""
    try:
        return os.listdir(place)  # noqa: PTH208 (only names are wanted)
    except OSError:
        return []


def _may_hold_a_run(folder: str) -> bool:
    """Return whether a folder has settings, or may not be looked into, which whoever reads it is told."""
    try:
        os.stat(f"{folder}/{RunRecord.CONFIG}")  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def config_hash(config: RunConfig) -> str:
    """Return eight digits that distinguish one config from another."""
    text = json.dumps(config.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
