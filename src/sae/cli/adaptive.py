"""`sae adaptive`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.deploy.tradeoff import CurvePoint

CSV, FIGURE = "adaptive.csv", "adaptive.png"


def adaptive(
    run: options.Run,
    out: Annotated[Path, typer.Option(help=f"folder for {CSV} and {FIGURE}")],
    eval_exits: options.EvalExits = None,
    keep_accuracy: Annotated[
        float | None, typer.Option(help="share of the validation accuracy to keep; 0.995 by default")
    ] = None,
    mean_flops: Annotated[float | None, typer.Option(help="instead: largest share of the FLOPs")] = None,
    data_root: options.DataRoot = None,
    json: options.Json = False,
) -> None:
    """Measure the trade-off of adaptive exits on the test split: quality against mean FLOPs and time."""
    from sae.cli.output import print_json, print_message
    from sae.data.locations import choose_data_root
    from sae.deploy.adaptive import choose_target

    target = choose_target(keep_accuracy, mean_flops)
    choose_data_root(data_root)
    from sae.core.errors import ConfigError
    from sae.deploy.tradeoff import adaptive_curve
    from sae.records.folder import Folder
    from sae.report.adaptive_figure import adaptive_figure

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out must be a writable folder, got {out}: {error.strerror}") from None
    points = adaptive_curve(run, target, eval_exits)
    rows = [point.to_row() for point in points]
    Folder(out).write_rows(CSV, rows)
    adaptive_figure(rows, title=f"Adaptive exits of {run.resolve().name}").save(out / FIGURE, ppi=144)
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
