"""The command on the speed of models: `sae bench`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sae.cli import options

if TYPE_CHECKING:
    from sae.deploy.bench import Bench, BenchModel, BenchTimes


@options.spread_groups
def bench(
    models: Annotated[list[Path], typer.Argument(help="run folders and exported models; ratios relate to the first")],
    *,
    batch: Annotated[str, typer.Option(help="batch sizes, e.g. 1,64")] = "1,64",
    repeats: Annotated[int, typer.Option(min=1, help="repeats of every model in every session")] = 20,
    sessions: Annotated[int, typer.Option(min=1, help="how often every model is loaded afresh")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="threads that one operation may use")] = 1,
    eval_exits: options.EvalExits = None,
    seed: Annotated[int, typer.Option(help="seed of the order in which models take turns")] = 0,
    source: options.RunDataOptions,
    json: options.Json = False,
) -> None:
    """Measure time, throughput, memory and size of models side by side."""
    from sae.cli.output import print_json
    from sae.deploy.bench import bench as measure
    from sae.deploy.latency import Effort

    where = source.where()
    batches = options.integers("--batch", batch) or []
    effort = Effort(repeats, sessions, seed)
    found = measure(models, batches, effort=effort, threads=threads, eval_exits=eval_exits, where=where)
    print_json(found.to_json()) if json else print_bench(found)


def print_bench(found: "Bench") -> None:
    """Print a table for each batch size. Its last row is the first model again."""
    from sae.cli.output import print_line, print_table
    from sae.core.table import text_table

    models = {model.label: model for model in found.models}
    columns = ["model", "runtime", "ms", "ms a sample", "samples/s", "ratio", "peak MB", "file kB"]
    for result in found.batches:
        rows = [
            [*_cells(row.label, row.times, models[row.label]), f"{row.peak_bytes / 1e6:.1f}", _size(models[row.label])]
            for row in result.rows
        ]
        again = [*_cells(f"{found.first}, again", result.control, models[found.first]), "-", "-"]
        print_table(text_table(f"batches of {result.batch}", columns, [*rows, again]))
        print_line(f"noise: the first model differs from itself by {abs(result.noise - 1):.1%}")
    print_line(
        f"medians of {found.effort.sessions} × {found.effort.repeats} interleaved repeats, threads: {found.threads}; "
        f"peak: memory that loading and one batch add to a process with its runtime started"
    )


def _cells(label: str, times: "BenchTimes", model: "BenchModel") -> list[str]:
    return [
        label,
        model.runtime,
        f"{times.ms:.3f}",
        f"{times.ms_per_sample:.4f}",
        f"{times.samples_per_second:,.0f}",
        f"{times.ratio:.2f}",
    ]


def _size(model: "BenchModel") -> str:
    return "-" if model.bytes is None else f"{model.bytes / 1e3:,.0f}"
