"""The commands on one network: `sae train`, `sae evaluate`, `sae trim` and `sae cost`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sae.cli import options
from sae.cli.backbone import say_preparation, with_backbone
from sae.core.collection import import_for_good
from sae.core.errors import require

if TYPE_CHECKING:
    from sae.config.run import RunConfig
    from sae.config.settings import Layer, Values
    from sae.data.dataset import Dataset
    from sae.data.training_profile import DataProfile
    from sae.measure.cost import Cost
    from sae.records.evaluated import SplitEvaluation
    from sae.records.evaluation import ShiftEvaluation
    from sae.records.network import Trimming


@options.spread_groups
def train(
    what: Annotated[str | None, typer.Argument(help="name from `sae data list`, or path of your own data")] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="folder for the run; the same command again continues it; default: runs/NAME"),
    ] = None,
    data: Annotated[str | None, typer.Option(help="the same, as an option")] = None,
    source: options.DataOptions,
    method: options.Method = None,
    network: options.BackboneOptions,
    inputs: options.Inputs = None,
    exits: options.Exits = None,
    members: options.Members = None,
    samples: options.Samples = None,
    rate: options.Rate = None,
    width: options.Width = None,
    depth: options.Depth = None,
    blocks: options.Blocks = None,
    epochs: options.Epochs = None,
    teacher: Annotated[
        Path | None, typer.Option(help="folder of a finished run to learn from, e.g. a deep ensemble on the same data")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="seed of weights, batches and sampling; default: {run.seed}")] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file of settings, or an ablation's name; flags override it")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="any setting, e.g. train.lr=1e-3; overrides flags")
    ] = None,
    force: Annotated[bool, typer.Option(help="delete an earlier run in the folder and start over")] = False,
    processes: options.Processes = None,
    trust_code: options.TrustCode = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="also write event files for TensorBoard after every epoch")
    ] = False,
    keep_predictions: options.KeepPredictions = False,
    json: options.Json = False,
) -> None:
    """Train a network, evaluate it at every number of exits, and leave a run folder."""
    del trust_code  # read when it was parsed
    data = options.one_of(what, data)
    flags = options.section(
        data=source.layer(data),
        method=options.section(name=method, inputs=inputs, exits=exits, members=members, samples=samples, rate=rate),
        backbone=network.layer(width=width, depth=depth, blocks=options.integers("--blocks", blocks)),
        train=options.section(epochs=epochs),
        teacher=options.section(run=teacher and str(teacher)),
        seed=seed,
    )
    from sae.data.catalogue import resolve

    layers = run_layers(config, flags, set_ or [])
    run = resolve(*layers)
    out = default_folder(run) if out is None else out
    for package in ("torch", "sklearn", *(["tensorboard"] if tensorboard else [])):
        require(package, "this command")
    import_for_good("torch")
    from sae.analysis.baselines import describe, doubt, to_json, verdict
    from sae.cli.output import (
        print_evaluation,
        print_findings,
        print_json,
        print_message,
        print_text,
        say_exits,
    )
    from sae.core.progress import Bar
    from sae.data.catalogue import CATALOGUE
    from sae.records.evaluated import SplitEvaluation
    from sae.training.baselines import measure_baselines, measure_network
    from sae.training.length import Training, is_still_improving, may_train_longer, train_enough
    from sae.training.predictions import keep_predictions as keep
    from sae.training.tracking import EpochNotes, TensorBoard

    say_preparation(run.data.model_dump())
    bar = Bar()
    callbacks = [EpochNotes(bar), *([TensorBoard()] if tensorboard else [])]
    cores = processes or options.num_cores()
    read: list[Dataset] = []

    def on_data(dataset: "Dataset", profile: "DataProfile | None") -> None:
        if not read and profile is not None and run.data.name not in CATALOGUE:
            print_findings(profile, run.data.name)
        read.append(dataset)

    training = Training(run, force, cores, bar, callbacks, on_data, print_message)
    record = train_enough(training, out) if may_train_longer(run, *layers) else training.run(run, out)
    if keep_predictions:
        keep(out)
    baselines = measure_baselines(read[0])
    with record.lock():  # another process with --force may have started over since
        evaluation, measured = record.read_evaluation(), measure_network(record, baselines)
        best, epochs = is_still_improving(record), record.read_config().train.epochs
    test = evaluation.test.model_copy(update={"exits": evaluation.best_exits})
    found = SplitEvaluation(run=str(out), split="test", evaluation=test)
    if json:
        compared = to_json(baselines, measured)
        print_json({**found.to_json(), "baselines": compared, "still_improving": best is not None})
    else:
        if beaten := verdict(baselines, measured) or doubt(baselines, measured):
            print_text(f"{beaten} More epochs, other settings or a search may help.")
        print_evaluation(found)
    say_exits(out, found.exits, len(found.readings))
    print_message(describe(baselines, measured))
    if best is not None:
        print_message(
            f"still improving: of {epochs:,} epochs the best on validation was number {best:,}, so more may help: "
            f"--epochs {2 * epochs}"
        )
    print_message(f"the run is in {out}")


def default_folder(run: "RunConfig") -> Path:
    """Return `runs/NAME` of the data, or `runs/NAME-2` and so on where that holds anything else than this run."""
    from itertools import count

    from sae.core.errors import SaeError
    from sae.data.defaults import is_longer
    from sae.records.run import RunRecord

    base = Path("runs") / (Path(run.data.name).resolve().stem or "data")
    for number in count(1):
        folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
        if not folder.exists():
            break
        try:
            if is_longer(RunRecord(folder).read_config(), run):
                break
        except SaeError:  # a folder of something else
            continue
    return folder


def resolve_run(config: Path | None, flags: "Values", assignments: list[str]) -> "RunConfig":
    """Return the settings of a run from its layers."""
    from sae.data.catalogue import resolve

    return resolve(*run_layers(config, flags, assignments))


def run_layers(config: Path | None, flags: "Values", assignments: list[str]) -> "list[Layer]":
    """Return the layers of settings of a run, lowest first: YAML, flags, --set."""
    from sae.config.settings import from_assignments, merge

    set_ = from_assignments(assignments)
    layers = [_read_config(config, merge(flags, set_)) if config else {}, flags, set_]
    return with_backbone([*layers, *options.task_layers(layers)])


def _read_config(config: Path, above: "Values") -> "Values":
    """Read a file of settings, or those of an ablation that is given by its name.

    Args:
        config: The file or the name.
        above: The settings that are laid over it. Another method or backbone would drop an ablation, and is refused.
    """
    from sae.config.settings import read_yaml, section_name
    from sae.core.errors import ConfigError, did_you_mean
    from sae.presets import ablations, read_ablation

    name, names = str(config), ablations()
    if config.exists() or config.suffix or config.parent.name:
        return read_yaml(config)
    if name not in names:
        raise ConfigError(
            f"--config must be a file or one of {', '.join(names)}, got {name}{did_you_mean(name, names)}"
        )
    settings = read_ablation(name)
    for key, section in settings.items():
        needed, given = section_name(section), section_name(above.get(key))
        if given not in (None, needed):
            raise ConfigError(f"--config {name} needs {key} {needed}, got {given}: leave out one of the two")
    return settings


@options.spread_groups
def evaluate(
    run: options.Run,
    *,
    split: Annotated[Literal["val", "test"], typer.Option(help="samples to evaluate on")] = "test",
    eval_exits: options.EvalExits = None,
    shift: Annotated[
        bool, typer.Option("--shift", help="evaluate also on the 95 corrupted versions of the images")
    ] = False,
    ood: Annotated[str | None, typer.Option(help="another data set: how well does uncertainty detect it?")] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="evaluate also after temperature scaling on the validation split")
    ] = False,
    threshold: Annotated[
        float | None, typer.Option(help="of two classes, call the positive one from this probability on")
    ] = None,
    cost_fp: Annotated[
        float | None,
        typer.Option(help="cost of a false positive; without --threshold, the cheapest on validation is used"),
    ] = None,
    cost_fn: Annotated[float | None, typer.Option(help="cost of a false negative")] = None,
    positive: Annotated[str | None, typer.Option(help="the positive class; default: the last of the two")] = None,
    source: options.RunDataOptions,
    device: options.Device = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="processes that corrupt images for --shift; by default one per core")
    ] = None,
    keep_predictions: options.KeepPredictions = False,
    json: options.Json = False,
) -> None:
    """Evaluate a finished run from its weights, at every number of exits."""
    from sae.analysis.decision import DecisionRule

    rule = DecisionRule.of(threshold, cost_fp, cost_fn, positive)
    import_for_good("torch")
    from sae.cli.output import print_evaluation, print_json, say_exits
    from sae.core.progress import Bar
    from sae.records.run import RunRecord
    from sae.training.predictions import keep_predictions as keep
    from sae.training.run_evaluation import evaluate as evaluate_run

    where = source.where()
    found = evaluate_run(
        run,
        split,
        eval_exits,
        shift=shift,
        ood=ood,
        calibrate=calibrate,
        rule=rule,
        device=device,
        where=where,
        display=Bar(),
        processes=processes or options.num_cores(),
    )
    if keep_predictions:
        keep(run, where)
    shifted = None if found.other_data else found.shift or RunRecord(run).read_shift(split)
    print_json(found.to_json()) if json else print_evaluation(found, shifted)
    if eval_exits is None:
        say_exits(run, found.exits, len(found.readings))
    if found.shift is not None:
        write_shift(run, found, found.shift)


def write_shift(run: Path, found: "SplitEvaluation", shift: "ShiftEvaluation") -> None:
    """Write the corrupted sets into the run folder, as rows of a table and cells of a heat map."""
    from sae.cli.output import print_message
    from sae.records.run import RunRecord
    from sae.report.figures.heat import shift_heatmap
    from sae.report.files import save_chart

    record, sets = RunRecord(run), shift.at(found.exits).sets
    table, picture = record.shift_files(found.split, found.exits)
    rows = [{"corruption": item.corruption, "severity": item.severity, **item.metrics} for item in sets]
    record.write_rows(table.name, rows)
    metric, maximise = ("f1", True) if "f1" in found.metrics else ("mse", False)
    chart = shift_heatmap(sets, metric, maximise=maximise, title=f"{metric} of {run.name} under shift")
    save_chart(chart, picture)
    print_message(f"every corrupted set is in {table} and {picture}")


@options.spread_groups
def trim(
    run: options.Run,
    out: Annotated[Path, typer.Option(help="folder for the trimmed run")],
    *,
    max_: Annotated[
        list[str] | None,
        typer.Option("--max", help="upper limit on a cost, e.g. flops=2e6; can be repeated; without it, no limit"),
    ] = None,
    weights: Annotated[
        Literal["greedy", "em"],
        typer.Option(
            help="greedy: by how often a member was chosen; em: fitted (without --max, for the learnt members)"
        ),
    ] = "greedy",
    force: Annotated[bool, typer.Option(help="delete an earlier run in the folder and start over")] = False,
    source: options.RunDataOptions,
    json: options.Json = False,
) -> None:
    """Choose the members of a trained network on validation samples, within limits on its cost, without training."""
    require("torch", "this command")
    import_for_good("torch")
    from sae.cli.output import print_json, print_message
    from sae.core.wording import count
    from sae.records.run import RunRecord
    from sae.report.figures.exits import trim_figure
    from sae.report.files import write_figure
    from sae.training.trimming import trim as trim_run

    limits = options.bounds("--max", max_)
    found = trim_run(run, out, limits, weights=weights, force=force, where=source.where())
    figure = out / RunRecord.TRIM_FIGURE
    write_figure(trim_figure(found, name="trim", title=f"{found.run}, trimmed"), figure, panels_per_row=2)
    print_json(found.to_json()) if json else print_trimming(found)
    samples = count(found.val_samples, "validation sample")
    print_message(
        f"{samples} decided; the trimmed run is in {out}, its curve in {out / RunRecord.TRIM_ROWS} and {figure}"
    )


def print_trimming(found: "Trimming") -> None:
    """Print the curve, a row for each network, and the chosen members."""
    from sae.cli.output import print_line, print_table
    from sae.core.objectives import COSTS, metric_label
    from sae.core.table import text_table

    splits = {"val": "validation", "test": "test"}
    metrics = [f"{metric_label(key)}, {name}" for name in splits.values() for key in found.metrics]
    rows = [
        [
            f"learnt, K′ = {point.eval_exits}" if point.kind == "theta" else "chosen",
            "" if point.limit is None else f"{point.limit:,.0f}",
            str(point.members),
            str(point.inputs),
            f"{point.val.costs[found.cost]:,.0f}",
            *(f"{getattr(point, split).metrics[key]:.4f}" for split in splits for key in found.metrics),
            "← this run" if point.kind == "chosen" else "",
        ]
        for point in found.of_kind("theta", "greedy", "chosen")
    ]
    label = COSTS[found.cost].label
    titles = ["", f"at most, {label}", "members", "inputs", label, *metrics, ""]
    print_table(text_table(f"members of {found.run}", titles, rows))
    chosen = ", ".join(f"input {item.input} exit {item.exit}: {item.weight:.3f}" for item in found.members)
    print_line(f"chosen members and their weights: {chosen}")
    if found.remark:
        print_line(found.remark)


def cost(
    backbone: Annotated[str, typer.Option(help=f"{options.BACKBONE_HELP}, or your own: FILE.py:FUNCTION")],
    input_shape: Annotated[
        str, typer.Option(help="shape of one sample: channel,height,width; channel,length; or features")
    ],
    outputs: Annotated[int, typer.Option(min=1, help="number of classes; 2 for regression")],
    method: Annotated[str, typer.Option(help=options.METHOD_HELP)] = "sae",
    inputs: options.Inputs = None,
    exits: options.Exits = None,
    members: options.Members = None,
    samples: options.Samples = None,
    rate: options.Rate = None,
    active: Annotated[str | None, typer.Option(help="inputs that use each exit, e.g. 0,2,2,2")] = None,
    width: options.Width = None,
    depth: options.Depth = None,
    blocks: options.Blocks = None,
    trust_code: options.TrustCode = False,
    json: options.Json = False,
) -> None:
    """Count parameters and FLOPs per sample of a network, pruned and as shipped, without training it."""
    from sae.cli.output import print_json
    from sae.config.run import NetworkConfig
    from sae.config.settings import parse
    from sae.core.errors import ConfigError
    from sae.core.trust import is_source

    import_for_good("torch")
    from sae.methods.costing import cost_of, shipped_cost_of

    del trust_code  # read when it was parsed
    shape = options.integers("--input-shape", input_shape) or []
    if min(shape) < 1:
        raise ConfigError(f"--input-shape must hold sizes of at least 1, got {input_shape}")
    if active is not None and exits is not None:
        raise ConfigError(
            "--active and --exits must not be given together, because both choose the exits: give one of them"
        )
    method_flags = options.section(name=method, inputs=inputs, exits=exits, members=members, samples=samples, rate=rate)
    backbone_flags = options.section(
        name=backbone, width=width, depth=depth, blocks=options.integers("--blocks", blocks)
    )
    if is_source(backbone):
        from sae.backbones.own import describe_own

        backbone_flags = {**describe_own(backbone, tuple(shape)), **backbone_flags}
    network = parse(NetworkConfig, {"method": method_flags, "backbone": backbone_flags})
    asked = network.method, network.backbone, tuple(shape), outputs, options.integers("--active", active)
    total, shipped = cost_of(*asked), shipped_cost_of(*asked)
    if json:
        print_json({**asdict(total), "shipped_params": shipped.params, "shipped_flops": shipped.flops})
    else:
        print_cost(f"{method} on {backbone}, {input_shape} → {outputs}", total, shipped)


def print_cost(title: str, total: "Cost", shipped: "Cost") -> None:
    """Print a row for each part of the pruned network, one for their sum, and one for the exported network."""
    from sae.cli.output import COST_ROWS, print_table
    from sae.core.table import text_table

    parts = [*total.by_part.items(), ("all", total), ("as shipped", shipped)]
    rows = [[name, f"{part.flops:,}", f"{part.params:,}"] for name, part in parts]
    print_table(text_table(title, ["part", *COST_ROWS], rows))
