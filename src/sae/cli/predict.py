"""`sae predict`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from sae.cli import options


def predict(
    model: Annotated[Path, typer.Argument(help="an .onnx file of `sae export`, with its manifest.json beside it")],
    data: Annotated[list[Path], typer.Argument(help="an .npz file, a table, or images and folders of them")],
    out: Annotated[Path, typer.Option(help="CSV file for the predictions")],
    abstain: Annotated[
        float | None, typer.Option(help="mark samples for a human if their top probability is below this")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(help="add sets or intervals that contain the truth with this probability")
    ] = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="let each sample leave at the first confident exit")
    ] = False,
    split: Annotated[Literal["train", "val", "test"], typer.Option(help="the split of an .npz file")] = "test",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of onnxruntime")] = 1,
    json: options.Json = False,
) -> None:
    """Predict with an exported model. Needs no torch."""
    from sae.cli.output import print_json, print_message
    from sae.core.errors import ConfigError
    from sae.deploy.answers import predict_to_file
    from sae.deploy.runtime import load, load_adaptive
    from sae.deploy.sources import read_chunks

    if out.resolve() in {path.resolve() for path in (model, *data)}:
        raise ConfigError(f"--out must not be an input file, got {out}")
    loaded = load_adaptive(model, threads) if adaptive else load(model, threads)
    summary = predict_to_file(loaded, read_chunks(data, loaded.manifest, split), out, abstain, coverage)
    report: dict[str, str | float | None] = {
        "model": str(model),
        "out": str(out),
        "abstain": abstain,
        "asked_coverage": coverage,
        **summary,
    }
    print_json(report) if json else print_summary(report)
    print_message(f"the predictions are in {out}")


def print_summary(values: Mapping[str, str | float | None]) -> None:
    """Print a row for each known number."""
    from sae.cli.output import print_table
    from sae.core.table import text_table

    left_out = ("model", "out", "abstain", "asked_coverage")
    titles = {
        "abstained": f"for a human (top probability below {values['abstain']})",
        "accuracy_kept": "accuracy of the rest",
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
