"""The folder a study leaves: its settings, Optuna's storage, and a run folder for every trial."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sae.config.backbones import BACKBONES
from sae.config.methods import METHODS
from sae.config.run import RunConfig
from sae.config.settings import section_name
from sae.config.study import StudyConfig
from sae.core.errors import MissingPluginError, NotRegisteredError, RecordError
from sae.core.objectives import Limit, Objective, limits, objectives
from sae.records.folder import Folder
from sae.records.run import Record, RunRecord

UNFINISHED, DAMAGED = "unfinished", "damaged"


class TrialRun(RunRecord):
    """The run folder of a trial."""

    ADVICE = "delete this run folder, and the same search trains it again"


class Derived(Folder):
    """A folder with files that were made from a study's runs, and can be again."""

    ADVICE = "delete it, and the command that made it makes it again"


@dataclass(frozen=True)
class Trial:
    """One trial that has begun.

    Attributes:
        method: What was trained.
        number: Of the trial, among those of its method.
        run: Its run folder.
    """

    method: str
    number: int
    run: RunRecord

    @property
    def name(self) -> str:
        """As users see it, `sae/12`."""
        return f"{self.method}/{self.number}"

    @property
    def state(self) -> str:
        """How it ended, `finished`, `stopped` or `failed`; else `unfinished`, or `damaged` where nobody can tell."""
        return state_of(self.run)


class StudyRecord(Record[StudyConfig]):
    """One study folder."""

    KIND, MAKER = "study", "sae search"
    MARK = "# The resolved settings of a study of sae."
    CONFIG, STORAGE, CLOCK, CONFIRMED = "study.yaml", "optuna.db", "clock.json", "confirmed.json"
    TRIALS, CONFIRM, SHIPPED, REPORT = "trials", "confirm", "shipped", "report.html"
    FILES = (CONFIG, STORAGE, f"{STORAGE}-journal", CLOCK, CONFIRMED, TRIALS, CONFIRM, SHIPPED, REPORT)
    MODEL, RECEIPT = "model.onnx", "receipt.json"
    """Of what is shipped."""

    @classmethod
    def open(cls, path: Path) -> "StudyRecord":
        """The record of a study that was begun."""
        record = cls(path)
        try:
            for method, space in record.config.spaces.items():
                METHODS.get(method)
                BACKBONES.get(section_name(space.get("backbone")))
        except NotRegisteredError as error:
            raise MissingPluginError(path, error) from None
        return record

    @property
    def config(self) -> StudyConfig:
        """The settings that the study was begun with."""
        return self._read_config(StudyConfig)

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What is optimised."""
        return objectives(self.config.objectives, self.config.task)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """What a configuration has to keep."""
        return limits(self.config.max, self.config.min, self.config.task)

    @property
    def seconds(self) -> float:
        """Time spent on it so far, over all sessions."""
        if not (self.path / self.CLOCK).exists():
            return 0.0
        with self.expecting(self.CLOCK):
            return float(self.read_json(self.CLOCK)["seconds"])

    def trial(self, method: str, number: int, config: RunConfig) -> Trial:
        """The trial of this number and config; the same ones always have the same folder."""
        folder = self.path / self.TRIALS / method / f"{number:05d}-{config_hash(config)}"
        return Trial(method, number, TrialRun(folder))

    def trials(self) -> Iterator[Trial]:
        """All trials that have begun, whatever became of them, by method and number."""
        for folder in sorted((self.path / self.TRIALS).glob("*/[0-9]*-*")):
            if (folder / RunRecord.CONFIG).exists():
                yield Trial(folder.parent.name, int(folder.name.split("-")[0]), TrialRun(folder))

    def clear(self) -> None:
        """Delete the study: what was told of trials before the trials, its settings last."""
        for name in (*(name for name in self.FILES if name != self.CONFIG), self.CONFIG):
            path = self.path / name
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def state_of(run: RunRecord) -> str:
    """How a run ended, `finished`, `stopped` or `failed`; else `unfinished`, or `damaged` where nobody can tell."""
    try:
        status = run.status
    except RecordError:
        return DAMAGED
    return str(status["state"]) if status else UNFINISHED


def config_hash(config: RunConfig) -> str:
    """Eight digits that tell one config from another."""
    text = json.dumps(config.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
