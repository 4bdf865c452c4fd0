"""The command `sae search`."""

from pathlib import Path
from typing import Annotated

import typer

from sae.cli import options
from sae.cli.results import print_results
from sae.cli.study_options import DataOptions, StudyOptions, spread_groups


@spread_groups
def search(
    out: Annotated[Path, typer.Option(help="folder for the study; the same command again continues it")],
    *,
    data: Annotated[str | None, typer.Option(help="a name from `sae data list`, or the path of your own data")] = None,
    source: DataOptions,
    backbone: options.Backbone = None,
    method: Annotated[
        str | None, typer.Option(help=f"methods to search, separated by commas ({options.METHOD_HELP}); default: sae")
    ] = None,
    objectives: Annotated[str | None, typer.Option(help="metrics and costs, e.g. nll,f1,flops or nll@shift")] = None,
    max_: options.Maximum = None,
    min_: options.Minimum = None,
    trials: options.Trials = None,
    hours: options.Hours = None,
    sampler: Annotated[str | None, typer.Option(help="gp, scalarized, tpe, nsga2, random or grid")] = None,
    startup: Annotated[int | None, typer.Option(min=1, help="random trials before the sampler's model is used")] = None,
    grid: Annotated[
        int | None, typer.Option(min=1, help="try every configuration of a finite space up to this size")
    ] = None,
    k_free: Annotated[bool, typer.Option("--k-free", help="with --sampler grid: train only the largest K")] = False,
    stop_early: Annotated[
        bool, typer.Option("--stop-early", help="stop trials that are behind at 1/9 and 1/3 of the epochs")
    ] = False,
    shift: Annotated[
        bool, typer.Option("--shift", help="also evaluate every trial on the 95 corrupted test sets")
    ] = False,
    confirm: Annotated[int | None, typer.Option(min=0, help="train the front again on this many other seeds")] = None,
    confirm_most: Annotated[
        int | None, typer.Option(min=1, help="confirm at most this many configurations of the front")
    ] = None,
    confirm_each: Annotated[
        int | None, typer.Option(min=0, help="also confirm this many of the best of each class of methods")
    ] = None,
    epochs: options.Epochs = None,
    seed: options.SearchSeed = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file: settings of a run with holes; flags override it")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="any setting or hole, e.g. 'backbone.width={choice: [1, 4]}'")
    ] = None,
    study: StudyOptions,
) -> None:
    """Search for the best configurations within a budget; writes a study folder."""
    from sae.cli.output import print_message
    from sae.config.settings import read_yaml
    from sae.search.plan import resolve_search
    from sae.search.run import run_study

    flags = options.section(
        data=source.layer(data),
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
    below = [read_yaml(config)] if config else []
    plan = resolve_search([*below, *options.layers_over(flags, set_ or [])])
    run_study(study.place(out), plan, print_message)
    print_results(out, json=study.json)
