"""The folders that runs and studies leave: YAML, JSON, CSV and safetensors, nothing that executes.

Every file is written under a temporary name and renamed, and a run's `status.json` comes
last, so that a folder is either unfinished work, which is resumed, or a whole result.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Generic, Self

from sae.config.run import RunConfig
from sae.config.settings import Model, differences, parse, read_yaml, to_yaml
from sae.core.errors import ConfigError, MissingPluginError, NotRegisteredError, RecordError
from sae.records.folder import LOCK, Folder

STATES = ("finished", "stopped", "failed")


def at_exits(by_exits: Sequence[dict[str, Any]], exits: int) -> dict[str, Any]:
    """What was recorded at K′ exits, among what was at every number of them.

    Example:
        >>> at_exits([{"exits": 1, "flops": 10}, {"exits": 2, "flops": 30}], 2)
        {'exits': 2, 'flops': 30}
    """
    found = next((item for item in by_exits if item["exits"] == exits), None)
    if found is None:
        recorded = ", ".join(str(item["exits"]) for item in by_exits) or "none"
        raise RecordError(f"the number of exits must be one that was recorded ({recorded}), got {exits}")
    return found


class Record(Folder, Generic[Model]):
    """A folder that was made with a config, which it keeps."""

    KIND: ClassVar[str]
    """What users call it."""
    MARK: ClassVar[str]
    """First line of its config; a folder with another config is not ours to write to."""
    CONFIG: ClassVar[str]
    """The name of the config's file."""
    FILES: ClassVar[tuple[str, ...]]
    """All that it may hold."""
    MAKER: ClassVar[str]
    """The command that makes it."""

    @classmethod
    def create(cls, path: Path, config: Model, *, force: bool = False) -> Self:
        """The record of this config at this path: a new one, or what an earlier command left there.

        Another config in the folder is refused; `force` deletes what is ours first, and nothing else.
        """
        record = cls(path)
        try:
            if path.exists() and not path.is_dir():
                raise RecordError(f"a {cls.KIND} folder must be a folder, however {path} is a file")
            record._make_room(config, force)
        except OSError as error:
            raise RecordError(
                f"a {cls.KIND} folder must be writable, however {path} is not: {error.strerror}"
            ) from None
        if not (path / cls.CONFIG).exists():
            with record.lock():  # of two processes that begin at once the second finds what the first has written
                if (path / cls.CONFIG).exists():
                    record._check_config(config)
                else:
                    record.write_text(cls.CONFIG, f"{cls.MARK}\n{to_yaml(config)}")
        return record

    def _make_room(self, config: Model, force: bool) -> None:
        """Refuse a folder that holds something else; clear it if asked to; make it if it is not there."""
        self.path.mkdir(parents=True, exist_ok=True)
        strange = [entry.name for entry in self.path.iterdir() if entry.name != LOCK and entry.suffix != ".tmp"]
        config_file = self.path / self.CONFIG
        if not config_file.exists():
            if strange:
                raise RecordError(
                    f"a {self.KIND} folder must be new or hold a {self.KIND}, however {self.path} holds {strange[0]}: "
                    f"name another"
                )
        elif not config_file.is_file() or not config_file.read_text(encoding="utf-8", errors="replace").startswith(
            self.MARK
        ):
            raise RecordError(f"{config_file} was not written by a {self.KIND}, and is left alone: name another folder")
        elif force:
            with self.lock():  # not under the hands of a process that works in it
                self.clear()
        else:
            self._check_config(config)

    def _check_config(self, config: Model) -> None:
        changed = differences(self.config, config)
        if changed:
            raise RecordError(
                f"{self.path} holds a {self.KIND} with another config ({'; '.join(changed[:5])}): "
                f"name another folder, or start over with --force"
            )

    @property
    def config(self) -> Model:
        """The resolved config that it was made with."""
        raise NotImplementedError

    def clear(self) -> None:
        """Delete what is ours."""
        raise NotImplementedError

    def _check_made(self) -> None:
        if not (self.path / self.CONFIG).exists():
            what = f"a {self.KIND} folder has a {self.CONFIG}, however {self.path} has none"
            raise RecordError(f"{what}: was it made by `{self.MAKER}`?")

    def _read_config(self, model: type[Model]) -> Model:
        self._check_made()
        try:
            return parse(model, read_yaml(self.path / self.CONFIG))
        except NotRegisteredError as error:
            raise MissingPluginError(self.path, error) from None
        except ConfigError as error:
            raise RecordError(f"{self.path / self.CONFIG} cannot be used: {error}") from None


class RunRecord(Record[RunConfig]):
    """One run folder."""

    KIND, MAKER = "run", "sae train"
    MARK = "# The resolved settings of a run of sae."
    ADVICE = "train again with --force"
    CONFIG, METRICS, CURVES = "config.yaml", "metrics.json", "curves.json"
    HISTORY, MODEL, CHECKPOINT, STATUS = (
        "history.csv",
        "model.safetensors",
        "checkpoint.safetensors",
        "status.json",
    )
    INTERIM, LATENCY = "interim.json", "latency.json"
    TENSORBOARD, EVENTS = "tensorboard", "events.out.tfevents.*"
    FILES = (STATUS, CONFIG, METRICS, CURVES, HISTORY, MODEL, CHECKPOINT, INTERIM, LATENCY)

    @classmethod
    def open(cls, path: Path) -> "RunRecord":
        """The record of a finished run."""
        record = cls(path)
        record._check_made()
        status = record.status
        if status is None:
            raise RecordError(f"{path} is unfinished: run the command that made it again to continue it")
        if status["state"] != "finished":
            reason = status.get("error", "the reason was not recorded")
            raise RecordError(f"{path} holds a {status['state']} run: {reason}")
        return record

    @property
    def config(self) -> RunConfig:
        """The resolved config that the run was made with."""
        return self._read_config(RunConfig)

    @property
    def status(self) -> dict[str, Any] | None:
        """How the run ended, or None while it is unfinished."""
        if not (self.path / self.STATUS).exists():
            return None
        status = self.read_json(self.STATUS)
        if status.get("state") not in STATES:
            raise RecordError(
                f"{self.path / self.STATUS} is damaged, its state must be one of {', '.join(STATES)}, "
                f"got {status.get('state')!r}: {self.ADVICE}"
            )
        return status

    @property
    def is_finished(self) -> bool:
        """Whether the run ended well."""
        status = self.status
        return status is not None and status["state"] == "finished"

    def end(self, state: str, **facts: Any) -> None:
        """Say how the run ended, and when; from then on it stays so."""
        self.write_json(self.STATUS, {"state": state, "ended": round(time.time(), 3), **facts})
        self.tidy()

    def tidy(self) -> None:
        """Delete what only an unfinished run needs; whoever ended it may have been killed before."""
        for name in (self.CHECKPOINT, self.INTERIM):
            (self.path / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete the files of a run: the status first so that no half of it looks whole, its settings last."""
        for name in self.FILES:
            if name != self.CONFIG:
                (self.path / name).unlink(missing_ok=True)
        for path in self.path.glob("shift-*"):
            path.unlink()
        self.clear_events()
        (self.path / self.CONFIG).unlink(missing_ok=True)

    def clear_events(self) -> None:
        """Delete the event files of TensorBoard, and their folder if nothing else is in it."""
        folder = self.path / self.TENSORBOARD
        for path in folder.glob(self.EVENTS):
            path.unlink()
        with suppress(OSError):  # it is not there, or holds what is not ours
            folder.rmdir()

    def history(self) -> list[dict[str, float]]:
        """A row for each epoch that is done; empty where none was recorded."""
        if not (self.path / self.HISTORY).exists():
            return []
        rows = self.read_rows(self.HISTORY)
        try:
            return [{"epoch": float(row["epoch"]), **{key: float(row[key]) for key in row}} for row in rows]
        except (KeyError, TypeError, ValueError):
            what = f"{self.path / self.HISTORY} must hold a row of numbers for each epoch, however it does not"
            raise RecordError(f"{what}: {self.ADVICE}") from None

    def report(self, split: str) -> dict[str, Any]:
        """What was measured of a split: `exits, metrics, by_exits`."""
        metrics = self.read_json(self.METRICS)
        if split not in metrics:
            raise RecordError(f"{self.path / self.METRICS} must hold {split}, however it does not: {self.ADVICE}")
        found: dict[str, Any] = metrics[split]
        return found
