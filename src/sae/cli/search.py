"""`sae search`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sae.cli import options
from sae.cli.results import print_results

if TYPE_CHECKING:
    from sae.search.executors import Executor


def search(
    out: Annotated[Path, typer.Option(help="folder for the study; the same command again continues it")],
    data: Annotated[str | None, typer.Option(help="a name of `sae data list`, or the path of your own data")] = None,
    task: options.Task = None,
    target: options.Target = None,
    size: options.Size = None,
    data_root: options.DataRoot = None,
    backbone: options.Backbone = None,
    method: Annotated[
        str | None, typer.Option(help=f"methods to search, separated by commas ({options.METHOD_HELP}); by default sae")
    ] = None,
    objectives: Annotated[str | None, typer.Option(help="metrics and costs, e.g. nll,f1,flops or nll@shift")] = None,
    max_: options.Maximum = None,
    min_: options.Minimum = None,
    trials: options.Trials = None,
    hours: options.Hours = None,
    sampler: Annotated[str | None, typer.Option(help="gp, scalarized, tpe, nsga2, random or grid")] = None,
    startup: Annotated[int | None, typer.Option(min=1, help="random trials before the sampler's model")] = None,
    grid: Annotated[int | None, typer.Option(min=1, help="finite spaces up to this size are tried out in full")] = None,
    k_free: Annotated[bool, typer.Option("--k-free", help="with --sampler grid: train only the largest K")] = False,
    stop_early: Annotated[bool, typer.Option("--stop-early", help="stop dominated trials at rungs of epochs")] = False,
    shift: Annotated[bool, typer.Option("--shift", help="evaluate trials on the 95 corrupted test sets too")] = False,
    confirm: Annotated[int | None, typer.Option(min=0, help="train the front again on so many other seeds")] = None,
    confirm_most: Annotated[int | None, typer.Option(min=1, help="confirm at most so many of the front")] = None,
    confirm_each: Annotated[
        int | None, typer.Option(min=0, help="confirm also so many of the own front of each class of methods")
    ] = None,
    epochs: options.Epochs = None,
    seed: options.SearchSeed = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file: settings of a run with holes; flags go over it")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="any setting or hole, e.g. 'backbone.width={choice: [1, 4]}'")
    ] = None,
    workers: options.Workers = None,
    executor: options.Executor = "local",
    address: options.Address = None,
    cpus_per_trial: options.CpusPerTrial = 1.0,
    gpus_per_trial: options.GpusPerTrial = 0.0,
    storage: options.Storage = None,
    force: options.StudyForce = False,
    json: options.Json = False,
) -> None:
    """Search for the best configurations within a budget; leaves a study folder."""
    from sae.cli.output import print_message
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
        confirm=options.section(seeds=confirm, most=confirm_most, each=confirm_each),
    )
    from sae.search.plan import resolve_search
    from sae.search.run import run_study

    place = make_executor(executor, workers, address, cpus_per_trial, gpus_per_trial)
    plan = resolve_search(read_layers(config, flags, set_ or []))
    run_study(out, plan, place, storage, force=force, on_word=print_message)
    print_results(out, json=json)


def read_layers(config: Path | None, flags: dict[str, Any], assignments: list[str]) -> list[dict[str, Any]]:
    """Layers of settings, lowest first: YAML, flags, --set."""
    from sae.config.settings import read_yaml

    return [read_yaml(config) if config else {}, *options.layers_over(flags, assignments)]


def make_executor(
    kind: str, workers: int | None, address: str | None, cpus_per_trial: float, gpus_per_trial: float
) -> "Executor":
    """Where trials run; flags that would have no effect there are refused."""
    from sae.core.errors import ConfigError

    if address is not None and kind != "ray":
        raise ConfigError("--address is that of a Ray cluster, and goes with --executor ray")
    if kind == "ray":
        from sae.search.executors.ray import RayExecutor

        return RayExecutor(address, workers, cpus_per_trial, gpus_per_trial)
    from sae.search.executors.local import LocalExecutor

    return LocalExecutor(workers or options.num_cores())
