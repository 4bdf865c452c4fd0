"""`sae adaptive`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sae.cli import options

CSV, FIGURE = "adaptive.csv", "adaptive.png"


def adaptive(
    run: options.Run,
    out: Annotated[Path, typer.Option(help=f"folder for {CSV} and {FIGURE}")],
    eval_exits: options.EvalExits = None,
    keep_accuracy: Annotated[
        float | None, typer.Option(help="share of the accuracy to keep on validation; 0.995 by default")
    ] = None,
    mean_flops: Annotated[float | None, typer.Option(help="instead: share of the FLOPs to use at most")] = None,
    data_root: options.DataRoot = None,
    json: options.Json = False,
) -> None:
    """What adaptive exits trade on the test split: quality against mean FLOPs and measured time."""
    from sae.cli.output import print_json, print_message
    from sae.data.locations import choose_data_root
    from sae.deploy.exit_rule import choose_target

    target = choose_target(keep_accuracy, mean_flops)
    choose_data_root(data_root)
    from sae.core.errors import ConfigError
    from sae.deploy.adaptive_curve import adaptive_curve
    from sae.records.folder import Folder
    from sae.report.figures.adaptive import adaptive_figure

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out must be a folder that can be written, got {out}: {error.strerror}") from None
    rows = adaptive_curve(run, target, eval_exits)
    Folder(out).write_rows(CSV, rows)
    adaptive_figure(rows, title=f"Adaptive exits of {run.resolve().name}").save(out / FIGURE, ppi=144)
    print_json({"run": str(run), "target": target.model_dump(), "rows": rows}) if json else print_curve(run, rows)
    print_message(f"the curve is in {out / CSV} and {out / FIGURE}")


def print_curve(run: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A row for each threshold."""
    from sae.cli.output import print_table

    titles = ["threshold", "accuracy", "nll", "ece", "mean FLOPs", "ms, batch 64", "ms, batch 1"]
    keys = ("accuracy", "nll", "ece", "mean_flops", "ms_batch64", "ms_batch1")
    shown = [[_name(row), *(f"{row[key]:.4f}" for key in keys)] for row in rows]
    print_table(f"{run}: adaptive exits on the test split", titles, shown)


def _name(row: Mapping[str, Any]) -> str:
    if row["kind"] in ("plain", "again"):
        return "plain graph" if row["kind"] == "plain" else "the same again"
    mark = " (calibrated)" if row["kind"] == "calibrated" else ""
    return (f"{row['threshold']:.4f}" if row["threshold"] <= 1 else "never") + mark
