"""What is known of a data set before it is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from sae.config.run import DataConfig
from sae.core.errors import ConfigError

if TYPE_CHECKING:
    from sae.data.dataset import Dataset


@dataclass(frozen=True)
class PublishedFile:
    """A file that can be downloaded.

    Attributes:
        name: What the file is called on disk.
        url: Where it is published.
        md5: Checksum of the published file.
        unpacked: Folder that is as good as the file, if there is such a thing.
    """

    name: str
    url: str
    md5: str
    unpacked: str | None = None


@dataclass(frozen=True)
class Entry:
    """A data set that can be read.

    Attributes:
        summary: One line for people.
        reader: `module:function` from a `DataConfig` and the run's seed to a `Dataset`.
        suggests: Settings for a run on it, under those that the user gives.
        kind: What a sample is; only images can be cropped and flipped.
        task: What is predicted, where that is fixed.
        takes: Settings beyond the common ones that mean something here: task, target, size.
        files: The published file of each size; None is the only size. Empty if there is nothing to fetch.
    """

    summary: str
    reader: str
    suggests: Mapping[str, Any] = field(default_factory=dict)
    kind: Literal["images", "table"] = "images"
    task: Literal["classification", "regression"] | None = "classification"
    takes: frozenset[str] = frozenset()
    files: Mapping[int | None, PublishedFile] = field(default_factory=dict)

    def read(self, config: DataConfig, seed: int) -> "Dataset":
        """Check the settings, then read."""
        self.check_settings(config)
        module, function = self.reader.split(":")
        dataset: Dataset = getattr(import_module(module), function)(config, seed)
        return dataset

    def check_settings(self, config: DataConfig) -> None:
        """Refuse settings that would be ignored, and ask for those that are needed."""
        for key in ("target", "size"):
            if getattr(config, key) is not None and key not in self.takes:
                raise ConfigError(
                    f"data.{key} means nothing for {config.name}, got {getattr(config, key)}: leave it out"
                )
        if "task" in self.takes and config.task is None:
            raise ConfigError(f"data.task must be said for {config.name}: --task classification or --task regression")
        if self.task is not None and config.task not in (None, self.task):
            raise ConfigError(f"data.task must be {self.task} for {config.name}, got {config.task}: leave it out")
        if self.kind == "table":
            for key in ("crop", "flip"):
                if getattr(config, key):
                    raise ConfigError(
                        f"data.{key} must be off for {config.name}, got {getattr(config, key)}: "
                        f"only images can be varied, and this is a table"
                    )
