"""`sae evaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.records.evaluation import ShiftEvaluation, SplitEvaluation


def evaluate(
    run: options.Run,
    split: Annotated[Literal["val", "test"], typer.Option(help="samples to evaluate on")] = "test",
    eval_exits: options.EvalExits = None,
    shift: Annotated[
        bool, typer.Option("--shift", help="evaluate also on the 95 corrupted versions of the images")
    ] = False,
    ood: Annotated[str | None, typer.Option(help="another data set: how well does uncertainty detect it?")] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="evaluate also after temperature scaling on the validation split")
    ] = False,
    data_root: options.DataRoot = None,
    device: options.Device = None,
    json: options.Json = False,
) -> None:
    """Evaluate a finished run from its weights, at every number of exits."""
    from sae.cli.output import print_evaluation, print_json
    from sae.data.locations import choose_data_root
    from sae.training.progress import Bar
    from sae.training.run import evaluate as evaluate_run

    choose_data_root(data_root)
    found = evaluate_run(
        run, split, eval_exits, shift=shift, ood=ood, calibrate=calibrate, device=device, display=Bar()
    )
    print_json(found.to_json()) if json else print_evaluation(found)
    if found.shift is not None:
        write_shift(run, found, found.shift)


def write_shift(run: Path, found: "SplitEvaluation", shift: "ShiftEvaluation") -> None:
    """Write the corrupted sets into the run folder, as rows of a table and cells of a heat map."""
    from sae.cli.output import print_message
    from sae.records.run import RunRecord
    from sae.report.figures.heat import shift_heatmap

    record, sets = RunRecord(run), shift.at(found.exits).sets
    table, picture = record.shift_files(found.split, found.exits)
    rows = [{"corruption": item.corruption, "severity": item.severity, **item.metrics} for item in sets]
    record.write_rows(table.name, rows)
    metric, maximise = ("f1", True) if "f1" in found.metrics else ("mse", False)
    chart = shift_heatmap(sets, metric, maximise=maximise, title=f"{metric} of {run.name} under shift")
    chart.save(picture, ppi=144)
    print_message(f"every corrupted set is in {table} and {picture}")
