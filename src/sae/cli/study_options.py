"""Options that `sae search` and `sae experiment` share: the data, and where the study runs."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sae.cli import options

if TYPE_CHECKING:
    from sae.config.settings import Layer
    from sae.search.executors import Executor
    from sae.search.run import Place


@dataclass(frozen=True)
class DataOptions:
    """Where the data are, and how to read data of one's own."""

    task: options.Task = None
    target: options.Target = None
    size: options.Size = None
    data_root: options.DataRoot = None

    def layer(self, name: str | None = None) -> "Layer":
        """Return the `data` section of settings, and look for files in the data root from now on."""
        from sae.data.locations import choose_data_root

        choose_data_root(self.data_root)
        return options.section(name=name, task=self.task, target=self.target, size=self.size)


@dataclass(frozen=True)
class StudyOptions:
    """Where trials run, where they are stored, and how results are printed."""

    workers: options.Workers = None
    executor: options.Executor = "local"
    address: options.Address = None
    cpus_per_trial: options.CpusPerTrial = 1.0
    gpus_per_trial: options.GpusPerTrial = 0.0
    storage: options.Storage = None
    force: options.StudyForce = False
    json: options.Json = False

    def place(self, out: Path) -> "Place":
        """Return where the study is done; starts or joins a Ray cluster if that was asked for."""
        from sae.search.run import Place

        return Place(out, make_executor(self), self.storage, self.force)


def make_executor(given: StudyOptions) -> "Executor":
    """Return the executor that was asked for; refuse options that would have no effect on it."""
    from sae.core.errors import ConfigError

    if given.address is not None and given.executor != "ray":
        raise ConfigError("--address needs --executor ray: it is the address of a Ray cluster")
    if given.executor == "ray":
        from sae.search.executors.ray import RayExecutor

        return RayExecutor(given.address, given.workers, given.cpus_per_trial, given.gpus_per_trial)
    from sae.search.executors.local import LocalExecutor

    return LocalExecutor(given.workers or options.num_cores())


def spread_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Turn every parameter of a command that is a dataclass into one option for each of its fields.

    Typer reads options from the signature; a group stands there as if its fields were written out in its place.
    """
    parameters = inspect.signature(command).parameters
    kinds = {name: each.annotation for name, each in parameters.items()}
    groups = {name: kind for name, kind in kinds.items() if isinstance(kind, type) and is_dataclass(kind)}
    spread: list[inspect.Parameter] = []
    for name, each in parameters.items():
        spread += inspect.signature(groups[name]).parameters.values() if name in groups else [each]

    @functools.wraps(command)
    def run(**given: object) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    options_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in spread]
    run.__signature__ = inspect.Signature(options_only)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in options_only}
    return run
