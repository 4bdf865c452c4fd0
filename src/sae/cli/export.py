"""`sae export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.deploy.manifest import AdaptivePart, Manifest


def export(
    run: Annotated[Path, typer.Argument(help="folder of a finished run, or of a study to ship its pick")],
    out: Annotated[Path, typer.Option(help="the .onnx file; its folder holds this one model")],
    eval_exits: options.EvalExits = None,
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
    data_root: options.DataRoot = None,
    json: options.Json = False,
) -> None:
    """Write a run's network as ONNX, pruned and folded, with a manifest.json beside it."""
    from sae.cli.output import print_json, print_message
    from sae.core.errors import ConfigError
    from sae.data.locations import choose_data_root
    from sae.deploy.adaptive import choose_target
    from sae.deploy.export import export as export_run
    from sae.records.study import StudyRecord

    if not adaptive and (keep_accuracy is not None or mean_flops is not None):
        raise ConfigError("--keep-accuracy and --mean-flops are targets of --adaptive: add --adaptive")
    target = choose_target(keep_accuracy, mean_flops) if adaptive else None

    choose_data_root(data_root)
    if adaptive and int8:
        raise ConfigError("--adaptive and --int8 cannot be combined (segments are in float32): leave one of them out")
    if (run / StudyRecord.CONFIG).exists():
        if adaptive:
            raise ConfigError(f"--adaptive is for run folders, but {run} is a study: export the run of its pick")
        export_pick(run, out, eval_exits, force=force, int8=int8, json=json)
        return
    manifest = export_run(run, out, eval_exits, adaptive=target, force=force, int8=int8)
    print_json(manifest.model_dump(mode="json")) if json else print_manifest(out, manifest)
    if adaptive and manifest.adaptive is not None:
        print_message(manifest.adaptive.verdict)
    print_message(
        f"the model is in {out}, with its manifest beside it; predict with: sae predict {out} DATA --out FILE.csv"
    )


def export_pick(study: Path, out: Path, eval_exits: int | None, *, force: bool, int8: bool, json: bool) -> None:
    """Ship the pick of a study, and print its receipt."""
    from sae.analysis.selection import select
    from sae.cli.output import print_json, print_message
    from sae.cli.results import print_receipt
    from sae.core.errors import ConfigError
    from sae.deploy.receipt import ship_pick
    from sae.records.study import StudyRecord

    if eval_exits is not None:
        raise ConfigError(
            f"--eval-exits is for run folders, but {study} is a study: its pick has its own number of exits"
        )
    manifest, receipt = ship_pick(select(StudyRecord.open(study)), out, force=force, int8=int8)
    if json:
        print_json({**manifest.model_dump(mode="json"), "receipt": receipt.to_json()})
        return
    print_manifest(out, manifest)
    print_receipt(str(out), receipt)
    print_message(f"the model is in {out}, with its manifest and {StudyRecord.RECEIPT} beside it")


def print_manifest(out: Path, manifest: "Manifest") -> None:
    """Print the shipped model as a table."""
    from sae.cli.output import print_table
    from sae.core.table import text_table

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
        [f"{conformal.tried:.0%} sets on test", f"{conformal.test_coverage:.1%} contain the truth"],
        [f"mean {what}", f"{conformal.test_size:.3g}"],
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
    if manifest.adaptive is not None:
        rows += adaptive_rows(manifest.adaptive)
    title = f"{out}: {network.method} on {network.backbone}, {network.eval_exits} exits per input"
    print_table(text_table(title, ["", "value"], rows))


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
