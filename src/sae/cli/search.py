"""`sae search`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sae.cli import options
from sae.cli.results import print_results

if TYPE_CHECKING:
    from sae.search.executors import Executor
    from sae.study_config import SearchConfig, StudyConfig


def search(
    out: Annotated[Path, typer.Option(help="folder for the study; the same command again continues it")],
    data: Annotated[str | None, typer.Option(help="a name of `sae data list`, or the path of your own data")] = None,
    task: options.Task = None,
    target: options.Target = None,
    size: options.Size = None,
    data_root: options.DataRoot = None,
    backbone: options.Backbone = None,
    method: Annotated[str | None, typer.Option(help="methods to search, separated by commas; by default sae")] = None,
    objectives: Annotated[str | None, typer.Option(help="metrics and costs, e.g. nll,f1,flops or nll@shift")] = None,
    max_: options.Maximum = None,
    min_: options.Minimum = None,
    trials: Annotated[int | None, typer.Option(min=1, help="sampled trials per method")] = None,
    hours: Annotated[float | None, typer.Option(help="start no trial after so many hours")] = None,
    sampler: Annotated[str | None, typer.Option(help="gp, scalarized, tpe, nsga2, random or grid")] = None,
    startup: Annotated[int | None, typer.Option(min=1, help="random trials before the sampler's model")] = None,
    grid: Annotated[int | None, typer.Option(min=1, help="finite spaces up to this size are tried out in full")] = None,
    k_free: Annotated[bool, typer.Option("--k-free", help="with --sampler grid: train only the largest K")] = False,
    stop_early: Annotated[bool, typer.Option("--stop-early", help="stop dominated trials at rungs of epochs")] = False,
    shift: Annotated[bool, typer.Option("--shift", help="evaluate trials on the 95 corrupted test sets too")] = False,
    confirm: Annotated[int, typer.Option(min=0, help="train the front again on so many other seeds")] = 0,
    confirm_most: Annotated[int | None, typer.Option(min=1, help="confirm at most so many of the front")] = None,
    epochs: Annotated[int | None, typer.Option(help="passes over the training data")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the search and of its runs")] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file: settings of a run with holes; flags go over it")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="any setting or hole, e.g. 'backbone.width={choice: [1, 4]}'")
    ] = None,
    workers: options.Workers = None,
    executor: Annotated[Literal["local", "ray"], typer.Option(help="where trials run")] = "local",
    address: Annotated[str | None, typer.Option(help="of a Ray cluster; by default one is started here")] = None,
    cpus_per_trial: Annotated[float, typer.Option(help="with --executor ray")] = 1.0,
    gpus_per_trial: Annotated[float, typer.Option(help="with --executor ray")] = 0.0,
    storage: Annotated[
        str | None, typer.Option(help="URL of a database; by default a file in the study folder")
    ] = None,
    force: Annotated[bool, typer.Option(help="start over, whatever the folder holds of a study")] = False,
    json: options.Json = False,
) -> None:
    """Search for the best configurations within a budget; leaves a study folder."""
    from sae.data.locations import choose_data_root

    choose_data_root(data_root)
    flags = options.section(
        data=options.section(name=data, task=task, target=target, size=size),
        backbone=options.section(name=backbone),
        train=options.section(epochs=epochs),
        seed=seed,
        search=options.section(
            methods=options.names("--method", method),
            objectives=options.names("--objectives", objectives),
            max=options.bounds("--max", max_),
            min=options.bounds("--min", min_),
            trials=trials,
            hours=hours,
            sampler=sampler,
            startup=startup,
            grid=grid,
            k_free=k_free or None,
            stop_early=stop_early or None,
            shift=shift or None,
        ),
    )
    check_flags(executor=executor, address=address, confirm=confirm, confirm_most=confirm_most)
    settings, study = resolve_search(config, flags, set_ or [])
    place = make_executor(executor, workers, address, cpus_per_trial, gpus_per_trial)
    run_study(out, settings, study, place, storage, Confirming(confirm, confirm_most), force=force)
    print_results(out, json=json)


def check_flags(*, executor: str, address: str | None, confirm: int, confirm_most: int | None) -> None:
    """Refuse flags that would have no effect."""
    from sae.errors import ConfigError

    if address is not None and executor != "ray":
        raise ConfigError("--address is that of a Ray cluster, and goes with --executor ray")
    if confirm_most is not None and not confirm:
        raise ConfigError("--confirm-most says how many to confirm, and goes with --confirm SEEDS")


def resolve_search(
    config: Path | None, flags: dict[str, Any], assignments: list[str]
) -> "tuple[SearchConfig, StudyConfig]":
    """Layers of settings, lowest first: what the data set suggests, the paper's spaces, YAML, flags, --set."""
    from sae.cli.train import data_name
    from sae.data.catalogue import suggestions
    from sae.errors import ConfigError
    from sae.search.holes import read_holes
    from sae.search.run import resolve_study
    from sae.settings import from_assignments, merge, parse, read_yaml
    from sae.study_config import SearchConfig

    layers = (read_yaml(config) if config else {}, flags, *(from_assignments([text]) for text in assignments))
    given: dict[str, Any] = {}
    for layer in layers:
        given = merge(given, read_holes(layer))
    own, asked = given.pop("spaces", {}), given.pop("search", {})
    if not isinstance(own, dict) or not all(isinstance(value, dict) for value in own.values()):
        raise ConfigError("spaces must hold a section of settings for each method, e.g. standard: {backbone: …}")
    settings = parse(SearchConfig, {**methods_of(given), **asked})
    return settings, resolve_study(settings, suggestions(data_name(given)), given, own)


def methods_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The method that a `method` section names is the one to search, where nothing else is said."""
    section = given.get("method")
    name = section if isinstance(section, str) else (section or {}).get("name")
    return {"methods": [name]} if name else {}


def make_executor(
    kind: str, workers: int | None, address: str | None, cpus_per_trial: float, gpus_per_trial: float
) -> "Executor":
    """Where trials run."""
    if kind == "ray":
        from sae.search.executors.ray import RayExecutor

        return RayExecutor(address, workers, cpus_per_trial, gpus_per_trial)
    from sae.search.executors.local import LocalExecutor

    return LocalExecutor(workers or options.num_cores())


@dataclass(frozen=True)
class Confirming:
    """What is to be trained again.

    Attributes:
        seeds: On so many other seeds; 0 for not at all.
        most: At most so many of the front.
    """

    seeds: int = 0
    most: int | None = None


def run_study(
    out: Path,
    settings: "SearchConfig",
    config: "StudyConfig",
    executor: "Executor",
    storage: str | None = None,
    confirming: Confirming | None = None,
    *,
    force: bool = False,
) -> None:
    """Search, then confirm if asked to; says what it is about to do, and ends the workers whatever happens."""
    from sae.cli.output import print_message
    from sae.search.driver import Budget
    from sae.search.run import open_study, run_confirmation, run_search

    try:
        record = open_study(out, config, force=force, keep_startup=settings.startup is None)
        print_message(announcement(settings, record.config))
        with record.lock():
            run_search(record, executor, Budget(settings.budget, settings.hours), storage, print_message)
            if confirming and confirming.seeds:
                run_confirmation(record, executor, confirming.seeds, confirming.most, print_message)
    finally:
        executor.close()


def announcement(settings: "SearchConfig", config: "StudyConfig") -> str:
    """What is about to happen, in one sentence."""
    from sae.search.space import read_space

    sizes = {method: read_space(method, template).size for method, template in config.spaces.items()}
    full = [method for method, size in sizes.items() if size <= config.grid or config.sampler == "grid"]
    parts = [f"{method} in full ({sizes[method]:.0f} trials)" for method in full]
    sampled = [method for method in sizes if method not in full]
    if sampled:
        limit = f"{settings.budget} trials each" if settings.budget else f"{settings.hours:g} hours"
        how = config.sampler if settings.sampler else f"{config.sampler}, the default for this number of objectives"
        parts.insert(0, f"{', '.join(sampled)} by {how}, after {config.startup} random trials, for {limit}")
    return f"searching for {', '.join(config.objectives)}: {'; '.join(sorted(parts, key=lambda part: 'full' in part))}"
