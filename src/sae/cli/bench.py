"""`sae bench`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sae.cli import options


def bench(
    models: Annotated[list[Path], typer.Argument(help="run folders and exported models; ratios are to the first")],
    batch: Annotated[str, typer.Option(help="batch sizes, e.g. 1,64")] = "1,64",
    repeats: Annotated[int, typer.Option(min=1, help="of every model in every session")] = 20,
    sessions: Annotated[int, typer.Option(min=1, help="times that every model is loaded anew")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="that one operation may use")] = 1,
    eval_exits: options.EvalExits = None,
    seed: Annotated[int, typer.Option(help="of the order in which models take turns")] = 0,
    data_root: options.DataRoot = None,
    json: options.Json = False,
) -> None:
    """Time, throughput, memory and size of models, measured side by side."""
    from sae.cli.output import print_json
    from sae.data.locations import choose_data_root
    from sae.deploy.bench import bench as measure
    from sae.deploy.latency import Effort

    choose_data_root(data_root)
    batches = options.integers("--batch", batch) or []
    effort = Effort(repeats, sessions, seed)
    report = measure(models, batches, effort=effort, threads=threads, eval_exits=eval_exits)
    print_json(report) if json else print_bench(report)


def print_bench(report: Mapping[str, Any]) -> None:
    """A table for each batch size; its last row is the first model once more."""
    from sae.cli.output import print_line, print_table

    models = {model["label"]: model for model in report["models"]}
    columns = ["model", "runtime", "ms", "ms a sample", "samples/s", "ratio", "peak MB", "file kB"]
    for result in report["batches"]:
        rows = [_cells(row, models[row["label"]]) for row in result["rows"]]
        first = models[report["first"]]
        control = {**result["control"], "label": f"{report['first']}, again"}
        print_table(f"batches of {result['batch']}", columns, [*rows, _cells(control, {**first, "bytes": None})])
        print_line(f"noise: the first model differs from itself by {abs(result['noise'] - 1):.1%}")
    print_line(
        f"medians of {report['sessions']} × {report['repeats']} interleaved repeats, threads: {report['threads']}; "
        f"peak: what loading and one batch add to a process that has its runtime"
    )


def _cells(row: Mapping[str, Any], model: Mapping[str, Any]) -> list[str]:
    size, peak = model["bytes"], row.get("peak_bytes")
    return [
        row["label"],
        model["runtime"],
        f"{row['ms']:.3f}",
        f"{row['ms_per_sample']:.4f}",
        f"{row['samples_per_second']:,.0f}",
        f"{row['ratio']:.2f}",
        "-" if peak is None else f"{peak / 1e6:.1f}",
        "-" if size is None else f"{size / 1e3:,.0f}",
    ]
