"""Run folders: YAML, JSON, CSV, arrays of NumPy and safetensors, nothing that executes.

Every file is written under a temporary name and renamed, and `status.json` comes last, so that a
folder is either unfinished work, which is resumed, or a whole result. `RunRecord` is the folder;
`Run` is its content when it was read.
"""

import hashlib
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

from sae.config.run import RunConfig, ValToo
from sae.core.errors import RecordError, RecordWarning
from sae.core.reading import read_file
from sae.records.evaluation import (
    AtExits,
    Evaluation,
    Interim,
    Latency,
    Part,
    RunEvaluation,
    ShiftEvaluation,
    Split,
    SplitCurves,
    Where,
    check_recorded,
)
from sae.records.folder import LOCK, Record
from sae.records.network import Network, Trimming
from sae.records.writing import temporaries

Ending = Literal["finished", "stopped", "failed"]
State = Literal["finished", "stopped", "failed", "running", "unfinished", "damaged"]
ENDINGS: tuple[Ending, ...] = ("finished", "stopped", "failed")
SHIFT_FILE = re.compile(r"shift-(val|test)-[0-9]+-exits\.(csv|png)")
"""Names that `RunRecord.shift_files` gives."""
STATES: tuple[State, ...] = (*ENDINGS, "running", "unfinished", "damaged")


class Status(Part):
    """How a run ended.

    Attributes:
        state: `finished`, `stopped` early, or `failed`.
        ended: When, in seconds since 1970.
        seconds: Time spent training.
        error: Why it has no result.
        epochs: Epochs done, if it was stopped before the last.
        derived_from: The run whose members it took instead of training its own.
        versions: Versions of the packages that made it.
        config_sha256: SHA-256 of the file of its settings; None in older runs.
        weights_sha256: SHA-256 of the file of its weights.
        files_sha256: SHA-256 of its other files when it ended, by name; None in older runs.
    """

    state: Ending
    ended: float = 0.0
    seconds: float | None = None
    error: str | None = None
    epochs: int | None = None
    derived_from: str | None = None
    versions: Mapping[str, str] | None = None
    config_sha256: str | None = None
    weights_sha256: str | None = None
    files_sha256: Mapping[str, str] | None = None

    @property
    def reason(self) -> str:
        """Why the run has no result."""
        return self.error or "the reason was not recorded"


class Lengths(Part):
    """The lengths of training that were tried; the best one was kept.

    Attributes:
        nll: Validation NLL by number of epochs.
    """

    nll: Mapping[int, float]

    def to_json(self) -> dict[str, object]:
        """Return it as the file has it."""
        return self.model_dump(mode="json")


class _MetricsFile(Part):
    val: Evaluation
    test: Evaluation


class _CurvesFile(Part):
    val: SplitCurves
    test: SplitCurves


class RunRecord(Record[RunConfig]):
    """One run folder; the only place that knows its file names.

    Attributes:
        label: Name of the run: `sae/12` for a trial of a study, else the folder's name.
    """

    KIND, MAKER = "run", "sae train"
    MARK = "# The resolved settings of a run of sae."
    CONFIG, METRICS, CURVES = "config.yaml", "metrics.json", "curves.json"
    HISTORY, MODEL, CHECKPOINT, STATUS = "history.csv", "model.safetensors", "checkpoint.safetensors", "status.json"
    NETWORK, PREDICTIONS = "network.json", "predictions.npz"
    INTERIM, LATENCY, DATA, SPLIT = "interim.json", "latency.json", "data.json", "split.safetensors"
    TEACHER, LENGTHS = "teacher.json", "lengths.json"
    TRIM, TRIM_ROWS, TRIM_FIGURE = "trim.json", "trim.csv", "trim.png"
    SHIFT: ClassVar[Mapping[Split, str]] = {"val": "shift-val.json", "test": "shift-test.json"}
    """Results on corrupted sets: those of validation that objectives use, and all 95 of test."""
    REFIT = "refit"
    """Folder of the last trainings before shipping, with validation samples, too."""
    TENSORBOARD, EVENTS = "tensorboard", "events.out.tfevents.*"
    FILES = (
        *(STATUS, CONFIG, METRICS, CURVES, HISTORY, MODEL, CHECKPOINT, INTERIM, LATENCY, DATA, SPLIT, NETWORK),
        *(TEACHER, LENGTHS, TRIM, TRIM_ROWS, TRIM_FIGURE, PREDICTIONS),
    )
    RECORDED = (METRICS, CURVES, HISTORY, DATA, SPLIT, NETWORK, TEACHER, LENGTHS, TRIM, TRIM_ROWS)
    """Files whose hashes are recorded when a run ends, beside those of its settings and weights."""
    RETRAIN: ClassVar[str] = "train again with --force"

    def __init__(self, path: Path, advice: str = RETRAIN, label: str | None = None) -> None:
        super().__init__(path, advice)
        self.label = path.name if label is None else label

    @classmethod
    def create(cls, path: Path, config: RunConfig, *, force: bool = False) -> Self:
        """Return the record of this config at this path: a new one, or that of an earlier command."""
        record = cls(path)
        record.make(config, force=force)
        return record

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the record of a finished run."""
        record = cls(path)
        record.check_made()
        status = record.read_status()
        if status is None:
            raise RecordError(f"{path} is unfinished: run the command that made it again to continue it")
        if status.state != "finished":
            raise RecordError(f"{path} holds a {status.state} run: {status.reason}")
        return record

    def read_config(self) -> RunConfig:
        """Read the resolved config that the run was made with."""
        return self._parse_config(RunConfig)

    def read_status(self) -> Status | None:
        """Read how the run ended; None while it is unfinished."""
        return self.find_model(self.STATUS, Status)

    def has_finished(self) -> bool:
        """Return whether the run ended with a result."""
        return (status := self.read_status()) is not None and status.state == "finished"

    def read_evaluation(self) -> RunEvaluation:
        """Read metrics and costs on both splits, and measurements for the objectives of a search."""
        metrics = self.read_model(self.METRICS, _MetricsFile)
        shift, latency = self.read_shift("val"), self.find_model(self.LATENCY, Latency)
        found = RunEvaluation(metrics.val, metrics.test, shifted_val=shift, latency=latency)
        parts = ((self.METRICS, found.test), (self.SHIFT["val"], found.shifted_val), (self.LATENCY, found.latency))
        for name, part in parts:
            if part is not None:
                self._check_exits(name, part.readings, found)
        return found

    def exits_to_read(self, eval_exits: int | None) -> int:
        """Return the K′ that a user names; if none, the one that is best on validation."""
        return self.read_evaluation().best_exits if eval_exits is None else eval_exits

    def add_shift(self, evaluation: RunEvaluation) -> RunEvaluation:
        """Add the results on corrupted test sets, if they were measured."""
        shifted = self.read_shift("test")
        if shifted is not None:
            self._check_exits(self.SHIFT["test"], shifted.readings, evaluation)
        return replace(evaluation, shifted_test=shifted, has_shift=True)

    def _check_exits(self, name: str, readings: Sequence[AtExits], evaluation: RunEvaluation) -> None:
        """Refuse a file that lacks a number of exits at which the validation split was evaluated."""
        try:
            check_recorded(readings, evaluation.eval_exits)
        except ValueError as error:
            raise RecordError(f"{self.path / name} is damaged ({error}): {self.advice}") from None

    def read_trimming(self) -> Trimming | None:
        """Read how the members of a trimmed run were chosen; None for any other run."""
        return self.find_model(self.TRIM, Trimming)

    def read_lengths(self) -> Lengths | None:
        """Read the lengths of training that were tried; None if there was only one."""
        return self.find_model(self.LENGTHS, Lengths)

    def read_shift(self, split: Split) -> ShiftEvaluation | None:
        """Read the results on corrupted versions of a split; None if they were not measured."""
        return self.find_model(self.SHIFT[split], ShiftEvaluation)

    def read_curves(self, split: Split) -> SplitCurves:
        """Read the curves of a split."""
        curves = self.read_model(self.CURVES, _CurvesFile)
        return curves.val if split == "val" else curves.test

    def read_network(self) -> Network | None:
        """Read the members and parts of the network; None if they were not recorded."""
        return self.find_model(self.NETWORK, Network)

    def read_interim(self) -> Interim:
        """Read the validation results of a paused run."""
        return self.read_model(self.INTERIM, Interim)

    def read_history(self) -> list[dict[str, float]]:
        """Read one row per finished epoch; an empty list if none was recorded."""
        if not self.has(self.HISTORY):
            return []
        rows = self.read_rows(self.HISTORY)
        try:
            return [{"epoch": float(row["epoch"]), **{key: float(row[key]) for key in row}} for row in rows]
        except (KeyError, TypeError, ValueError):
            raise RecordError(
                f"{self.path / self.HISTORY} must hold a row of numbers for each epoch: {self.advice}"
            ) from None

    def count_epochs(self) -> int:
        """Count the finished epochs of a run that may still be training."""
        try:
            return max(0, read_file(f"{self.path / self.HISTORY}").count(b"\n") - 1)
        except OSError:
            return 0

    def refit_folder(self, val_too: ValToo) -> Path:
        """Return the folder of the same network, trained on validation samples, too."""
        return self.path / self.REFIT / val_too

    def shift_files(self, split: Split, eval_exits: int) -> tuple[Path, Path]:
        """Return the table and the picture that `sae evaluate --shift` leaves beside the run."""
        stem = self.path / f"shift-{split}-{eval_exits}-exits"
        return stem.with_suffix(".csv"), stem.with_suffix(".png")

    def end(
        self,
        state: Ending,
        *,
        seconds: float | None = None,
        error: str | None = None,
        epochs: int | None = None,
        derived_from: str | None = None,
        versions: Mapping[str, str] | None = None,
    ) -> None:
        """Record how and when the run ended."""
        weights = self.hash_of(self.MODEL)
        status = Status(
            state=state,
            ended=round(time.time(), 3),
            seconds=None if seconds is None else round(seconds, 3),
            error=error,
            epochs=epochs,
            derived_from=derived_from,
            versions=versions,
            config_sha256=self.hash_of(self.CONFIG) if weights else None,
            weights_sha256=weights,
            files_sha256={name: found for name in self.RECORDED if (found := self.hash_of(name))} if weights else None,
        )
        self.write_json(self.STATUS, status.model_dump(mode="json", exclude_none=True))
        self.tidy()

    def hash_of(self, name: str) -> str | None:
        """Return the SHA-256 of a file; None if it is missing."""
        if not self.has(name):
            return None
        with self._reading(name) as path, path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def recorded_hashes(self) -> dict[str, str]:
        """Return the SHA-256 of its files when it ended, by name; of those that were recorded."""
        status = self.read_status()
        if status is None:
            return {}
        own = {self.CONFIG: status.config_sha256, self.MODEL: status.weights_sha256}
        return {name: found for name, found in own.items() if found} | dict(status.files_sha256 or {})

    def identity(self) -> str:
        """Return a hash that identifies the run: of its settings and of the facts recorded about its data."""
        parts = (self.hash_of(self.CONFIG), self.hash_of(self.DATA))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def check_weights(self) -> None:
        """Refuse settings or weights that are not those that the run ended with; warn if it recorded no hashes."""
        status = self.read_status()
        if status is None or status.weights_sha256 is None:
            if self.has(self.DATA):  # for an older run, which recorded neither, reading its data warns
                warnings.warn(
                    f"{self.path} was made before runs recorded hashes of their files: whether its weights are its own "
                    f"is not checked",
                    RecordWarning,
                    stacklevel=2,
                )
            return
        for name, recorded in ((self.CONFIG, status.config_sha256), (self.MODEL, status.weights_sha256)):
            found = self.hash_of(name)
            if found is not None and found != recorded:
                raise RecordError(
                    f"{self.path / name} is not the file that this run ended with (its SHA-256 differs from that in "
                    f"{self.STATUS}): bring the run's own file back, or {self.advice}"
                )

    def tidy(self) -> None:
        """Delete the files that only an unfinished run needs; a kill may have left them."""
        for name in (self.CHECKPOINT, self.INTERIM):
            (self.path / name).unlink(missing_ok=True)

    def own_files(self) -> Iterator[Path]:
        """Yield the files of a run: the status first, so that no half-deleted run looks finished; its settings last."""
        names = (*(name for name in self.FILES if name != self.CONFIG), *self.SHIFT.values())
        yield from (self.path / name for name in names)
        for folder in (self.path / self.REFIT).glob("*"):
            if RunRecord(folder).is_made():
                yield from (*RunRecord(folder).own_files(), folder / LOCK)
        yield from (path for path in self.path.glob("shift-*") if SHIFT_FILE.fullmatch(path.name))
        yield from (self.path / self.TENSORBOARD).glob(self.EVENTS)
        for name in self.FILES:
            yield from temporaries(self.path / name)  # left by a killed write
        yield self.path / self.CONFIG

    def clear_events(self) -> None:
        """Delete TensorBoard's event files, and their folder if nothing else is in it."""
        for path in (folder := self.path / self.TENSORBOARD).glob(self.EVENTS):
            path.unlink()
        with suppress(OSError):  # it is missing, or holds files that are not ours
            folder.rmdir()


@dataclass(frozen=True)
class Run:
    """The content of a run folder when it was read.

    Attributes:
        record: The folder.
        state: How the run ended; else `unfinished`, `running`, or `damaged` if a file could not be read.
        config: Its settings; None if they could not be read.
        status: How it ended; None while it is unfinished or if that could not be read.
        evaluation: Its measurements; only finished runs have them.
        damage: Which file could not be read, and what to do. A finished run whose results on corrupted
            test sets are damaged is still finished, without them.
    """

    record: RunRecord
    state: State
    config: RunConfig | None = None
    status: Status | None = None
    evaluation: RunEvaluation | None = None
    damage: str | None = None

    @property
    def label(self) -> str:
        """Name of the run."""
        return self.record.label

    @property
    def method(self) -> str:
        """The name of the method; for a trial with damaged settings, the folder that holds its trials."""
        return self.config.method.name if self.config else self.record.path.parent.name

    @property
    def ended(self) -> float:
        """When the run ended, in seconds since 1970; 0 if that is unknown."""
        return self.status.ended if self.status else 0.0

    @property
    def seconds(self) -> float | None:
        """Time spent training, where it is known."""
        return self.status.seconds if self.status else None

    @property
    def error(self) -> str | None:
        """Why there is no result, if there is none."""
        return self.damage or (self.status.error if self.status else None)

    def value(self, name: str, where: Where = "val") -> float | None:
        """Return a metric on a split or under shift, or a cost, at the trained K; None if it was not measured."""
        if self.evaluation is None:
            return None
        exits = self.evaluation.exits
        metrics = self.evaluation.metrics(where, exits)
        return metrics[name] if name in metrics else self.evaluation.costs(exits).get(name)


def read_run(record: RunRecord, *, with_shift: bool = False) -> Run:
    """Read a run folder once; damage becomes part of the result and is never raised.

    Args:
        record: The folder.
        with_shift: Whether to read the results on corrupted test sets, too.
    """
    config: RunConfig | None = None
    status: Status | None = None
    try:
        config = record.read_config()
        status = record.read_status()
        if status is None:
            return Run(record, "unfinished", config)
        evaluation = record.read_evaluation() if status.state == "finished" else None
    except RecordError as error:
        return Run(record, "damaged", config, status, damage=str(error))
    damage = None
    if with_shift and evaluation is not None:
        try:
            evaluation = record.add_shift(evaluation)
        except RecordError as error:
            evaluation, damage = replace(evaluation, has_shift=True), str(error)
    return Run(record, status.state, config, status, evaluation, damage)
