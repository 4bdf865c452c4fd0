"""`sae export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.deploy.adaptive_part import AdaptivePart
    from sae.deploy.manifest import Manifest


def export(
    run: options.Run,
    out: Annotated[Path, typer.Option(help="the .onnx file; its folder holds this one model")],
    eval_exits: options.EvalExits = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="also write stages in which samples leave at confident exits")
    ] = False,
    keep_accuracy: Annotated[
        float | None,
        typer.Option(help="share of the accuracy that adaptive exits keep on validation; 0.995 by default"),
    ] = None,
    mean_flops: Annotated[
        float | None, typer.Option(help="instead: share of the FLOPs that they use at most on validation")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace another model that is there")] = False,
    data_root: options.DataRoot = None,
    json: options.Json = False,
) -> None:
    """Write a run's network as ONNX, pruned and folded, with a manifest.json beside it."""
    from sae.cli.output import print_json, print_message
    from sae.data.locations import choose_data_root
    from sae.deploy.exit_rule import choose_target
    from sae.deploy.export import export as export_run
    from sae.errors import ConfigError

    if not adaptive and (keep_accuracy is not None or mean_flops is not None):
        raise ConfigError("--keep-accuracy and --mean-flops are targets of --adaptive, which was not given: add it")
    target = choose_target(keep_accuracy, mean_flops) if adaptive else None

    choose_data_root(data_root)
    manifest = export_run(run, out, eval_exits, adaptive=target, force=force)
    print_json(manifest.model_dump(mode="json")) if json else print_manifest(out, manifest)
    if adaptive and manifest.adaptive is not None:
        print_message(manifest.adaptive.verdict)
    print_message(f"the model is in {out}, its manifest beside it; predict with: sae predict {out} DATA --out FILE.csv")


def print_manifest(out: Path, manifest: "Manifest") -> None:
    """What is shipped, in a table."""
    from sae.cli.output import print_table

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
        [f"{conformal.tried:.0%} sets on test", f"{conformal.test_coverage:.1%} hold the truth"],
        [f"mean {what}", f"{conformal.test_size:.3g}"],
        ["distance to the run", f"{manifest.parity.largest_difference:.1e} over {manifest.parity.samples} samples"],
    ]
    if manifest.adaptive is not None:
        rows += adaptive_rows(manifest.adaptive)
    print_table(
        f"{out}: {network.method} on {network.backbone}, {network.eval_exits} exits per input", ["", "value"], rows
    )


def adaptive_rows(part: "AdaptivePart") -> list[list[str]]:
    """What adaptive exits come to."""
    leaves = ", ".join(
        f"{fraction:.1%} at {stage.exit}" for fraction, stage in zip(part.fractions["test"], part.stages, strict=True)
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
