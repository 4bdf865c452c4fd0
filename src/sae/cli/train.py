"""`sae train`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.config.run import RunConfig
    from sae.config.settings import Values


def train(
    out: Annotated[Path, typer.Option(help="folder for the run; the same command again continues it")],
    data: Annotated[str | None, typer.Option(help="name from `sae data list`, or path of your own data")] = None,
    task: options.Task = None,
    target: options.Target = None,
    size: options.Size = None,
    data_root: options.DataRoot = None,
    method: options.Method = None,
    backbone: options.Backbone = None,
    inputs: options.Inputs = None,
    exits: options.Exits = None,
    members: options.Members = None,
    samples: options.Samples = None,
    rate: options.Rate = None,
    width: options.Width = None,
    depth: options.Depth = None,
    blocks: options.Blocks = None,
    epochs: options.Epochs = None,
    seed: Annotated[int | None, typer.Option(help="seed of weights, batches and sampling")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file of settings; flags override it")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="any setting, e.g. train.lr=1e-3; overrides flags")
    ] = None,
    force: Annotated[bool, typer.Option(help="delete an earlier run in the folder and start over")] = False,
    processes: options.Processes = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="also write event files for TensorBoard after every epoch")
    ] = False,
    json: options.Json = False,
) -> None:
    """Train a network, evaluate it at every number of exits, and leave a run folder."""
    from sae.data.locations import choose_data_root

    flags = options.section(
        data=options.section(name=data, task=task, target=target, size=size),
        method=options.section(name=method, inputs=inputs, exits=exits, members=members, samples=samples, rate=rate),
        backbone=options.section(name=backbone, width=width, depth=depth, blocks=options.integers("--blocks", blocks)),
        train=options.section(epochs=epochs),
        seed=seed,
    )
    choose_data_root(data_root)
    run = resolve_run(config, flags, set_ or [])
    from sae.cli.output import print_evaluation, print_json, print_message
    from sae.records.evaluation import SplitEvaluation
    from sae.training.progress import Bar
    from sae.training.run import train as train_run
    from sae.training.tracking import UNTRACKED, TensorBoard

    tracker = TensorBoard() if tensorboard else UNTRACKED
    cores = processes or options.num_cores()
    record = train_run(run, out, force=force, processes=cores, display=Bar(), tracker=tracker)
    found = SplitEvaluation(run=str(out), split="test", evaluation=record.read_evaluation().test)
    print_json(found.to_json()) if json else print_evaluation(found)
    print_message(f"the run is in {out}")


def resolve_run(config: Path | None, flags: "Values", assignments: list[str]) -> "RunConfig":
    """Return the settings of a run, from layers, lowest first: YAML, flags, --set."""
    from sae.config.settings import from_assignments, read_yaml
    from sae.data.catalogue import resolve

    return resolve(read_yaml(config) if config else {}, flags, from_assignments(assignments))
