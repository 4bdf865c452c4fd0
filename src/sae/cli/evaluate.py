"""`sae evaluate`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sae.cli import options


def evaluate(
    run: options.Run,
    split: Annotated[Literal["val", "test"], typer.Option(help="which samples")] = "test",
    eval_exits: options.EvalExits = None,
    shift: Annotated[bool, typer.Option("--shift", help="also on the 95 corrupted versions of the images")] = False,
    ood: Annotated[str | None, typer.Option(help="another set, to be told from this one by uncertainty")] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="also after temperature scaling fitted on the validation split")
    ] = False,
    data_root: options.DataRoot = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Evaluate a finished run from its weights, at every number of exits: K is free."""
    from sae.cli.output import print_evaluation, print_json
    from sae.data.locations import choose_data_root
    from sae.training.progress import Bar
    from sae.training.run import evaluate as evaluate_run

    choose_data_root(data_root)
    report = evaluate_run(
        run, split, eval_exits, shift=shift, ood=ood, calibrate=calibrate, device=device, display=Bar()
    )
    (print_json if json else print_evaluation)(report)
    if shift:
        write_shift(run, report)


def write_shift(run: Path, report: Mapping[str, Any]) -> None:
    """Every corrupted set as a row of a table and a cell of a heat map, beside the run."""
    from sae.cli.output import print_message
    from sae.records.run import RunRecord
    from sae.report.figures.heat import shift_heatmap

    record, name = RunRecord(run), f"shift-{report['split']}-{report['exits']}-exits"
    rows = [{**row, **row["metrics"]} for row in report["shift"]["by_set"]]
    record.write_rows(f"{name}.csv", [{key: row[key] for key in row if key != "metrics"} for row in rows])
    metric, maximise = ("f1", True) if "f1" in report["metrics"] else ("mse", False)
    title = f"{metric} of {run.name} under shift"
    chart = shift_heatmap(report["shift"]["by_set"], metric, maximise=maximise, title=title)
    chart.save(run / f"{name}.png", ppi=144)
    print_message(f"every corrupted set is in {run / name}.csv and {run / name}.png")
