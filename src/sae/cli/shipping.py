"""The commands that ship a network: `sae export`, `sae adaptive` and `sae predict`."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sae.cli import options
from sae.core.collection import import_for_good

if TYPE_CHECKING:
    from sae.deploy.manifest import AdaptivePart, CalibrationPart, Manifest
    from sae.deploy.tradeoff import CurvePoint
    from sae.records.receipt import Receipt

CSV, FIGURE = "adaptive.csv", "adaptive.png"
"""Files of `sae adaptive`."""


@options.spread_groups
def export(
    run: Annotated[Path, typer.Argument(help="folder of a finished run, or of a study to ship its pick")],
    out: Annotated[Path, typer.Option(help="the .onnx file; its folder holds this one model")],
    *,
    eval_exits: options.ShippedExits = None,
    prefer: options.Prefer = None,
    max_: options.Maximum = None,
    min_: options.Minimum = None,
    method: options.Methods = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="also write segments, so that samples can leave at confident exits")
    ] = False,
    keep_accuracy: Annotated[
        float | None,
        typer.Option(help="share of the validation accuracy that adaptive exits keep; 0.995 by default"),
    ] = None,
    mean_flops: Annotated[
        float | None, typer.Option(help="instead: largest share of the FLOPs on validation samples")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace another model in the folder")] = False,
    int8: Annotated[
        bool, typer.Option("--int8", help="quantise to about a quarter of the size, and show the loss in quality")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="put a temperature into the graph that is fitted on validation samples")
    ] = False,
    refit: options.Refit = None,
    source: options.RunDataOptions,
    json: options.Json = False,
) -> None:
    """Write a run's network as ONNX, pruned and folded, with a manifest.json and a model card beside it."""
    from sae.deploy.manifest import check_model_path

    check_model_path(out)
    import_for_good("torch")
    from sae.analysis.selection import preferred, select
    from sae.cli.output import print_json, print_message, say_exits
    from sae.core.errors import ConfigError
    from sae.core.progress import Bar
    from sae.deploy.adaptive import choose_target
    from sae.deploy.export import export as export_run
    from sae.deploy.receipt import ship_pick
    from sae.records.run import RunRecord
    from sae.records.study import StudyRecord

    if not adaptive and (keep_accuracy is not None or mean_flops is not None):
        raise ConfigError("--keep-accuracy and --mean-flops are targets of --adaptive: add --adaptive")
    target = choose_target(keep_accuracy, mean_flops) if adaptive else None

    where, bar = source.where(), Bar()
    if adaptive and int8:
        raise ConfigError("--adaptive and --int8 cannot be combined (segments are in float32): leave one of them out")
    if (run / StudyRecord.CONFIG).exists():
        if adaptive:
            raise ConfigError(f"--adaptive is for run folders, but {run} is a study: export the run of its pick")
        if eval_exits is not None:
            raise ConfigError(
                f"--eval-exits is for run folders, but {run} is a study: its pick has its own number of exits"
            )
        record = StudyRecord.open(run)
        selection = select(
            record,
            prefer=prefer,
            maximum=options.bounds("--max", max_),
            minimum=options.bounds("--min", min_),
            methods=options.names("--method", method),
        )
        wanted = preferred(record, prefer)
        found = ship_pick(
            selection, out, wanted, force=force, int8=int8, calibrate=calibrate, refit=refit, where=where, display=bar
        )
        print_shipped(out, *found, record.target, json=json)
        return
    if prefer is not None or max_ or min_ or method is not None:
        raise ConfigError(f"--prefer, --max, --min and --method choose from a study, but {run} is a run: drop them")
    manifest = export_run(
        run,
        out,
        eval_exits,
        adaptive=target,
        force=force,
        int8=int8,
        calibrate=calibrate,
        refit=bool(refit),
        where=where,
        display=bar,
    )
    print_json(manifest.model_dump(mode="json")) if json else print_manifest(out, manifest)
    if eval_exits is None and not adaptive:
        say_exits(run, manifest.network.eval_exits, len(RunRecord(run).read_evaluation().eval_exits))
    if manifest.refit is not None:
        print_message(manifest.refit.text)
    if adaptive and manifest.adaptive is not None:
        print_message(manifest.adaptive.verdict)
    print_message(
        f"the model is in {out}, with its manifest and a model card beside it; "
        f"predict with: sae predict {out} DATA --out FILE.csv"
    )


def print_shipped(out: Path, manifest: "Manifest", receipt: "Receipt", target: str | None, *, json: bool) -> None:
    """Print the pick of a study that was shipped, and its receipt."""
    from sae.cli.output import print_json, print_message
    from sae.cli.receipt import print_receipt
    from sae.records.study import StudyRecord

    if json:
        print_json({**manifest.model_dump(mode="json"), "receipt": receipt.to_json()})
        return
    print_manifest(out, manifest)
    print_receipt(str(out), receipt, target)
    print_message(f"the model is in {out}, with its manifest, {StudyRecord.RECEIPT} and a model card beside it")


def print_manifest(out: Path, manifest: "Manifest") -> None:
    """Print the shipped model as a table."""
    from sae.cli.output import print_table
    from sae.core.table import text_table
    from sae.core.wording import count

    network, cost, conformal = manifest.network, manifest.cost, manifest.conformal
    what = "classes in a set" if manifest.task == "classification" else "width of an interval"
    keys = ("accuracy", "f1", "nll", "ece", "mse")
    rows = [
        ["file", f"{manifest.graph.bytes:,} bytes"],
        ["takes", f"{manifest.input.dtype}, {'×'.join(map(str, manifest.input.shape))}"],
        ["inputs at exit", " ".join(map(str, network.active))],
        ["FLOPs, shipped", f"{cost.flops:,}, {cost.shipped_flops:,}"],
        ["parameters, shipped", f"{cost.params:,}, {cost.shipped_params:,}"],
        *(
            [f"{key} on test", f"{manifest.metrics['test'][key]:.4f}"]
            for key in keys
            if key in manifest.metrics["test"]
        ),
        *(
            [
                [f"{conformal.tried:.0%} sets on test", f"{conformal.test_coverage:.1%} contain the truth"],
                [f"mean {what}", f"{conformal.test_size:.3g}"],
            ]
            if conformal is not None
            else []
        ),
        [
            "difference from the run" + (" in float32" if manifest.quantisation else ""),
            f"{manifest.parity.largest_difference:.1e} over {manifest.parity.samples} samples",
        ],
    ]
    if manifest.quantisation is not None:
        before = manifest.quantisation
        rows += [
            ["int8, size", f"{before.size_ratio:.2f} × float32"],
            [f"int8, time at batch {before.batch}", f"{before.time_ratio:.2f} × float32"],
            *(
                [f"{key} on test in float32", f"{before.float32.metrics['test'][key]:.4f}"]
                for key in keys
                if key in manifest.metrics["test"]
            ),
        ]
    if manifest.calibration is not None:
        rows += calibration_rows(manifest.calibration, keys)
    if manifest.adaptive is not None:
        rows += adaptive_rows(manifest.adaptive)
    title = f"{out}: {network.method} on {network.backbone}, {count(len(network.members), 'member')}"
    print_table(text_table(title, ["", "value"], rows))


def calibration_rows(part: "CalibrationPart", keys: Sequence[str]) -> list[list[str]]:
    """Return the rows of a table about temperature scaling: T, the metrics without it, its effect under shift."""
    from sae.analysis.temperature import effect_under_shift

    if part.remark is not None:
        return [["temperature scaling", part.text]]
    raw = part.raw["test"]
    return [
        ["temperature scaling", part.text],
        *([f"{key} on test without it", f"{raw[key]:.4f}"] for key in keys if key in raw),
        ["under shift", effect_under_shift(part.under_shift)],
    ]


def adaptive_rows(part: "AdaptivePart") -> list[list[str]]:
    """Return the rows of a table about adaptive exits."""
    leaves = ", ".join(
        f"{fraction:.1%} at {segment.exit}"
        for fraction, segment in zip(part.fractions["test"], part.stages, strict=True)
    )
    return [
        ["adaptive: leave from", f"confidence {part.threshold:.4f}" if part.threshold <= 1 else "the last exit only"],
        ["adaptive: exits on test", leaves],
        [
            "adaptive: accuracy on test",
            f"{part.metrics['test']['accuracy']:.4f} ({part.accuracy_kept['test']:.2%} kept)",
        ],
        ["adaptive: mean FLOPs on test", f"{part.mean_flops['test']:.1%} of the plain graph's"],
        [f"adaptive: time, batch {part.timing.batch}", f"{part.time_ratio:.2f} × the plain graph's"],
    ]


@options.spread_groups
def adaptive(
    run: options.Run,
    out: Annotated[Path, typer.Option(help=f"folder for {CSV} and {FIGURE}")],
    *,
    eval_exits: options.AdaptiveExits = None,
    keep_accuracy: Annotated[
        float | None, typer.Option(help="share of the validation accuracy to keep; 0.995 by default")
    ] = None,
    mean_flops: Annotated[float | None, typer.Option(help="instead: largest share of the FLOPs")] = None,
    source: options.RunDataOptions,
    json: options.Json = False,
) -> None:
    """Measure the trade-off of adaptive exits on the test split: quality against mean FLOPs and time."""
    from sae.cli.output import print_json, print_message
    from sae.deploy.adaptive import choose_target

    target = choose_target(keep_accuracy, mean_flops)
    where = source.where()
    import_for_good("torch")
    from sae.core.errors import ConfigError
    from sae.deploy.tradeoff import adaptive_curve
    from sae.records.folder import write_csv
    from sae.records.targets import check_target, write_target
    from sae.report.figures.exits import adaptive_figure
    from sae.report.files import save_chart

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out must be a writable folder, got {out}: {error.strerror}") from None
    for file in (CSV, FIGURE):
        check_target(out / file)
    points = adaptive_curve(run, target, eval_exits, where)
    rows = [point.to_row() for point in points]
    write_target(out / CSV, partial(write_csv, rows))
    save_chart(adaptive_figure(rows, title=f"Adaptive exits of {run.resolve().name}"), out / FIGURE)
    print_json({"run": str(run), "target": target.model_dump(), "rows": rows}) if json else print_curve(run, points)
    print_message(f"the curve is in {out / CSV} and {out / FIGURE}")


def print_curve(run: Path, points: "Sequence[CurvePoint]") -> None:
    """Print a row for each threshold."""
    from sae.cli.output import print_table
    from sae.core.table import text_table

    titles = ["threshold", "accuracy", "nll", "ece", "mean FLOPs", "ms, batch 64", "ms, batch 1"]
    keys = ("accuracy", "nll", "ece", "mean_flops", "ms_batch64", "ms_batch1")
    rows = [[_name(point), *(f"{getattr(point, key):.4f}" for key in keys)] for point in points]
    print_table(text_table(f"{run}: adaptive exits on the test split", titles, rows))


def _name(point: "CurvePoint") -> str:
    if point.threshold is None:
        return "plain graph" if point.kind == "plain" else "the same again"
    mark = " (chosen)" if point.kind == "calibrated" else ""
    return (f"{point.threshold:.4f}" if point.threshold <= 1 else "never") + mark


def predict(
    model: Annotated[Path, typer.Argument(help="an .onnx file of `sae export`, with its manifest.json beside it")],
    data: Annotated[list[Path], typer.Argument(help="an .npz file, a table, or images and folders of them")],
    out: Annotated[Path, typer.Option(help="CSV file for the predictions")],
    abstain: Annotated[
        float | None, typer.Option(help="mark samples for a human if their top probability is below this")
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            help="add sets or intervals that contain the truth with this probability, on average over samples like "
            "the validation samples"
        ),
    ] = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="let each sample leave at the first confident exit")
    ] = False,
    split: Annotated[Literal["train", "val", "test"], typer.Option(help="the split of an .npz file")] = "test",
    keep: Annotated[
        list[str] | None, typer.Option(help="columns of the table to copy into the predictions, e.g. customerID")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of onnxruntime")] = 1,
    timeout: Annotated[
        float | None,
        typer.Option(min=0.001, help="stop after this many seconds: the graph of a stranger may never end"),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="end with exit code 3 if a sample cannot be predicted")
    ] = False,
    json: options.Json = False,
) -> None:
    """Predict with an exported model. Needs no torch."""
    from sae.cli.output import print_json, print_message
    from sae.core.errors import ConfigError, PredictionError
    from sae.core.wording import count
    from sae.deploy.answers import predict_to_file
    from sae.deploy.runtime import load, load_adaptive
    from sae.deploy.sources import read_chunks
    from sae.records.writing import is_standard_output

    prints = is_standard_output(out)
    if prints and json:
        raise ConfigError(f"--json prints the summary on standard output, and --out {out} the predictions: drop one")
    loaded = load_adaptive(model, threads) if adaptive else load(model, threads)
    kept = options.names("--keep", ",".join(keep)) if keep else None
    chunks = read_chunks(data, loaded.manifest, split, kept or ())
    summary = predict_to_file(loaded, chunks, out, abstain, coverage, timeout, inputs=(model, *data))
    report: dict[str, str | float | None] = {
        "model": str(model),
        "out": str(out),
        "abstain": abstain,
        "asked_coverage": coverage,
        **summary,
    }
    if prints:  # a table among the rows would spoil them
        print_message(f"{count(int(summary['samples']), 'prediction')} printed")
    else:
        print_json(report) if json else print_summary(report)
        print_message(f"the predictions are in {out}")
    if strict and "unusable" in summary:
        raise PredictionError(f"--strict: {count(int(summary['unusable']), 'sample')} cannot be predicted")


def print_summary(values: Mapping[str, str | float | None]) -> None:
    """Print a row for each known number."""
    from sae.cli.output import print_table
    from sae.core.table import text_table

    left_out = ("model", "out", "abstain", "asked_coverage")
    titles = {
        "unusable": "not predicted (not finite)",
        "abstained": f"for a human (top probability below {values['abstain']})",
        "accuracy_kept": "accuracy of the rest",
        "all_labels_correct": "samples with all labels correct",
        "coverage": f"truths in sets that promise {values['asked_coverage']}",
        "mean_set_size": "mean classes in a set",
        "mean_width": "mean width of an interval",
        "mean_flops": "mean FLOPs, as a share of the plain graph's",
    }
    rows = [
        [titles.get(key, key), f"{value:,}" if isinstance(value, int) else f"{value:.4f}"]
        for key, value in values.items()
        if key not in left_out
    ]
    print_table(text_table(f"{values['model']}", ["", "value"], rows))
