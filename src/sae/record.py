"""The folder a run leaves: YAML, JSON, CSV and safetensors, nothing that executes.

Every file is written under a temporary name and renamed, and `status.json` comes last, so
that a folder is either unfinished work, which is resumed, or a whole result.
"""

import csv
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.config import RunConfig
from sae.errors import ConfigError, RecordError
from sae.settings import differences, parse, read_yaml, to_yaml

Arrays = dict[str, NDArray[Any]]


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
        if path.exists() and not path.is_dir():
            raise RecordError(f"--out must name a folder, however {path} is a file")
        if (path / cls.CONFIG).exists():
            if force:
                record.clear()
            else:
                record._check_config(config)
        elif path.is_dir() and any(path.iterdir()):
            raise RecordError(f"--out must name a run folder or a new one, however {path} holds other files")
        path.mkdir(parents=True, exist_ok=True)
        record.write_text(cls.CONFIG, to_yaml(config))
        return record

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
            raise RecordError(f"{path} holds a failed run: {status['error']}")
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
        return self.read_json(self.STATUS) if (self.path / self.STATUS).exists() else None

    @property
    def is_finished(self) -> bool:
        """Whether the run ended well."""
        status = self.status
        return status is not None and status["state"] == "finished"

    def clear(self) -> None:
        """Delete the files of a run, the status first so that no half of it looks whole."""
        for name in self.FILES:
            (self.path / name).unlink(missing_ok=True)

    def write_text(self, name: str, text: str) -> None:
        """Write a text file as a whole or not at all."""
        self._replace(name, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def write_json(self, name: str, values: Mapping[str, Any]) -> None:
        """Write a mapping as JSON; NaN and infinity are refused, they are no JSON."""
        self.write_text(name, json.dumps(values, indent=2, allow_nan=False) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Read a mapping."""
        path = self.path / name
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RecordError(
                f"{self.path} must hold {name}, however it is missing: train again with --force"
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise RecordError(f"{path} is damaged ({error}): train again with --force") from None
        if not isinstance(values, dict):
            raise RecordError(f"{path} must hold a JSON object, got a {type(values).__name__}")
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

        path = self.path / name
        try:
            with safe_open(path, framework="np") as file:
                return {key: np.array(file.get_tensor(key)) for key in file.keys()}, file.metadata() or {}  # noqa: SIM118
        except FileNotFoundError:
            raise RecordError(
                f"{self.path} must hold {name}, however it is missing: train again with --force"
            ) from None
        except SafetensorError as error:
            raise RecordError(f"{path} is damaged or cut short ({error}): train again with --force") from None

    def _replace(self, name: str, write: Callable[[Path], object]) -> None:
        temporary = self.path / f".{name}.tmp"
        try:
            write(temporary)
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(self.path / name)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise RecordError(
                f"{self.path / name} could not be written ({error.strerror}): what was there before is untouched; "
                f"make room or name another folder, then run the same command again"
            ) from error

    def _check_config(self, config: RunConfig) -> None:
        changed = differences(self.config, config)
        if changed:
            raise RecordError(
                f"{self.path} holds a run with another config ({'; '.join(changed[:5])}): "
                f"name another folder, or start over with --force"
            )
