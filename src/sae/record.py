"""The folder a run leaves: YAML, JSON, CSV and safetensors, nothing that executes.

Every file is written under a temporary name and renamed, and `status.json` comes last, so
that a folder is either unfinished work, which is resumed, or a whole result.
"""

import csv
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.config import RunConfig
from sae.errors import ConfigError, RecordError
from sae.settings import differences, parse, read_yaml, to_yaml

Arrays = dict[str, NDArray[Any]]

MARK = "# The resolved settings of a run of sae."
"""First line of a run's config; a folder with another config.yaml is not ours to write to."""
ADVICE = "train again with --force"
STATES = ("finished", "stopped", "failed")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under a temporary name, sync and rename it, so that it is there as a whole or not at all.

    Args:
        path: The file.
        write: Writes what belongs there to the path that it is given.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise RecordError(
            f"{path} could not be written ({error.strerror}): what was there before is untouched; "
            f"make room or name another folder, then run the same command again"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


class RunRecord:
    """One run folder.

    Attributes:
        path: The folder.
    """

    CONFIG, METRICS, CURVES = "config.yaml", "metrics.json", "curves.json"
    HISTORY, MODEL, CHECKPOINT, STATUS = (
        "history.csv",
        "model.safetensors",
        "checkpoint.safetensors",
        "status.json",
    )
    FILES = (STATUS, CONFIG, METRICS, CURVES, HISTORY, MODEL, CHECKPOINT)

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, config: RunConfig, *, force: bool = False) -> "RunRecord":
        """The record of this config at this path: a new one, or what an earlier command left there.

        Another config in the folder is refused; `force` deletes the files of a run first, and no others.
        """
        record = cls(path)
        try:
            if path.exists() and not path.is_dir():
                raise RecordError(f"a run folder must be a folder, however {path} is a file")
            record._make_room(config, force)
        except OSError as error:
            raise RecordError(f"a run folder must be writable, however {path} is not: {error.strerror}") from None
        if not (path / cls.CONFIG).exists():
            record.write_text(cls.CONFIG, f"{MARK}\n{to_yaml(config)}")
        return record

    def _make_room(self, config: RunConfig, force: bool) -> None:
        """Refuse a folder that holds something else; clear it if asked to; make it if it is not there."""
        self.path.mkdir(parents=True, exist_ok=True)
        strange = [
            entry.name for entry in self.path.iterdir() if entry.name not in self.FILES and entry.suffix != ".tmp"
        ]
        config_file = self.path / self.CONFIG
        if not config_file.exists():
            if strange:
                raise RecordError(
                    f"a run folder must be new or hold a run, however {self.path} holds {strange[0]}: name another"
                )
            self.clear()  # the rest of a run that lost its config, or of one killed before it had any
        elif not config_file.is_file() or not config_file.read_text(encoding="utf-8", errors="replace").startswith(
            MARK
        ):
            raise RecordError(f"{config_file} was not written by a run, and is left alone: name another folder")
        elif force:
            self.clear()
        else:
            self._check_config(config)

    @classmethod
    def open(cls, path: Path) -> "RunRecord":
        """The record of a finished run."""
        record = cls(path)
        if not (path / cls.CONFIG).exists():
            raise RecordError(f"a run folder has a {cls.CONFIG}, however {path} has none: was it made by `sae train`?")
        status = record.status
        if status is None:
            raise RecordError(f"{path} is unfinished: run the command that made it again to continue it")
        if status["state"] == "failed":
            raise RecordError(f"{path} holds a failed run: {status.get('error', 'the reason was not recorded')}")
        return record

    @property
    def config(self) -> RunConfig:
        """The resolved config that the run was made with."""
        try:
            return parse(RunConfig, read_yaml(self.path / self.CONFIG))
        except ConfigError as error:
            raise RecordError(f"{self.path / self.CONFIG} cannot be used: {error}") from None

    @property
    def status(self) -> dict[str, Any] | None:
        """How the run ended, or None while it is unfinished."""
        if not (self.path / self.STATUS).exists():
            return None
        status = self.read_json(self.STATUS)
        if status.get("state") not in STATES:
            raise RecordError(
                f"{self.path / self.STATUS} is damaged, its state must be one of {', '.join(STATES)}, "
                f"got {status.get('state')!r}: train again with --force"
            )
        return status

    @property
    def is_finished(self) -> bool:
        """Whether the run ended well."""
        status = self.status
        return status is not None and status["state"] == "finished"

    def clear(self) -> None:
        """Delete the files of a run, the status first so that no half of it looks whole."""
        for name in self.FILES:
            (self.path / name).unlink(missing_ok=True)

    def report(self, split: str) -> dict[str, Any]:
        """What was measured of a split: `exits, metrics, by_exits`."""
        metrics = self.read_json(self.METRICS)
        if split not in metrics:
            raise RecordError(
                f"{self.path / self.METRICS} must hold {split}, however it does not: train again with --force"
            )
        found: dict[str, Any] = metrics[split]
        return found

    def write_text(self, name: str, text: str) -> None:
        """Write a text file as a whole or not at all."""
        self._replace(name, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def write_json(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a mapping as JSON; NaN and infinity are refused, they are no JSON."""
        self.write_text(name, json.dumps(values, indent=2, allow_nan=False) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a mapping."""
        try:
            with self._reading(name) as path:
                values = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise RecordError(f"{self.path / name} is damaged ({error}): {ADVICE}") from None
        if not isinstance(values, dict):
            raise RecordError(f"{self.path / name} must hold a JSON object, got a {type(values).__name__}: {ADVICE}")
        return values

    def write_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows that share their keys as CSV."""

        def write(temporary: Path) -> None:
            with temporary.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
                writer.writeheader()
                writer.writerows(rows)

        self._replace(name, write)

    def write_arrays(self, name: str, arrays: Arrays, metadata: dict[str, str] | None = None) -> None:
        """Write named arrays as safetensors."""
        from safetensors.numpy import save

        content = save(arrays, metadata)  # its save_file hides a full disk behind an error of its own
        self._replace(name, lambda temporary: temporary.write_bytes(content))

    def read_arrays(self, name: str) -> tuple[Arrays, dict[str, str]]:
        """Read named arrays and the metadata beside them."""
        from safetensors import SafetensorError, safe_open

        try:
            with self._reading(name) as path, safe_open(path, framework="np") as file:
                return {key: np.array(file.get_tensor(key)) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
        except SafetensorError as error:
            raise RecordError(f"{self.path / name} is damaged or cut short ({error}): {ADVICE}") from None

    @contextmanager
    def _reading(self, name: str) -> Iterator[Path]:
        """The path of a file of this run; that it is missing or cannot be read is said in our words."""
        try:
            yield self.path / name
        except FileNotFoundError:
            raise RecordError(f"{self.path} must hold {name}, however it is missing: {ADVICE}") from None
        except OSError as error:
            reason = error.strerror or error
            raise RecordError(
                f"{self.path / name} must be a readable file, however it is not ({reason}): {ADVICE}"
            ) from None

    def _replace(self, name: str, write: Callable[[Path], object]) -> None:
        write_whole(self.path / name, write)

    def _check_config(self, config: RunConfig) -> None:
        changed = differences(self.config, config)
        if changed:
            raise RecordError(
                f"{self.path} holds a run with another config ({'; '.join(changed[:5])}): "
                f"name another folder, or start over with --force"
            )
