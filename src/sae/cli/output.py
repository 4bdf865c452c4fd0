"""What commands print: results to standard output, everything else to standard error."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

METRIC_ROWS = (
    *("temperature", "accuracy", "f1", "nll", "ece", "cc_ece", "brier", "mse", "coverage_90", "width_90"),
    *("aurc", "disagreement", "diversity_disagreement", "auroc_entropy"),
)
"""What a table shows first of the metrics; JSON has all."""
SHORT_NAMES = {"diversity_disagreement": "diversity"}
COSTS = {"FLOPs": "flops", "parameters": "params"}
SHIPPED_COSTS = {"shipped FLOPs": "shipped_flops", "shipped params": "shipped_params"}
"""Of the exported network; the others are of the pruned one, as the paper counts."""


def listed_metrics(first: Sequence[str] = METRIC_ROWS) -> list[str]:
    """Return the metrics that tables on the terminal show: some first, then all others that are registered."""
    from sae.core.objectives import METRICS

    return list(dict.fromkeys([*first, *(entry.key for entry in METRICS if entry.is_listed)]))


def print_json(values: Mapping[str, Any]) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(values, indent=2, allow_nan=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output, never cut short where that is a file or a pipe; numbers to the right."""
    table = Table()
    for index, column in enumerate(columns):
        is_number = index > 0 and all(row[index][:1].isdigit() or row[index][:1] == "-" for row in rows)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=index == 0)
    for row in rows:
        table.add_row(*row)
    console = result_console()
    console.print(title, style="bold", markup=False, highlight=False)
    console.print(table)


def result_console() -> Console:
    """Standard output; wide where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


def print_line(line: str) -> None:
    """A line of a result on standard output, as it is: never broken, so that a command in it can be copied."""
    sys.stdout.write(f"{line}\n")


def print_message(message: str) -> None:
    """A line for the person at the terminal, on standard error."""
    Console(stderr=True, highlight=False).print(message, markup=False, soft_wrap=True)


@contextmanager
def download_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """Bytes and speed on standard error while something is downloaded; nothing if that is not a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_evaluation(report: Mapping[str, Any]) -> None:
    """One column for each number of exits, the one asked for marked; then shift and other sets, if asked for."""
    _print_by_exits(f"{report['run']} on {report['split']}", report["by_exits"], report["exits"])
    if "calibrated" in report:
        scaled = [_as_calibrated(item) for item in report["by_exits"]]
        _print_by_exits("after temperature scaling fitted on val", scaled, report["exits"])
    if report["shift"]:
        shift = report["shift"]
        _print_by_exits(f"mean over {shift['sets']} corrupted sets", shift["by_exits"], report["exits"])
    if "ood" in report:
        rows = [[key, f"{value:.4f}"] for key, value in report["ood"].items() if key != "set"]
        print_table(f"telling {report['ood']['set']} from {report['split']} samples", ["", "value"], rows)


def _as_calibrated(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"exits": item["exits"], "metrics": {"temperature": item["temperature"], **item["calibrated"]}}


def _print_by_exits(title: str, items: Sequence[Mapping[str, Any]], chosen: int) -> None:
    """Measures as rows and numbers of exits as columns, so that it fits a narrow terminal."""
    marks = [" ←" if item["exits"] == chosen and len(items) > 1 else "" for item in items]
    columns = ["exits per input", *(f"{item['exits']}{mark}" for item, mark in zip(items, marks, strict=True))]
    keys = [key for key in listed_metrics() if all(key in item["metrics"] for item in items)]
    rows = [[SHORT_NAMES.get(key, key), *(f"{item['metrics'][key]:.4f}" for item in items)] for key in keys]
    if "flops" in items[0]:
        rows.insert(0, ["inputs at exit", *(" ".join(map(str, item["active"])) for item in items)])
        costs = {name: key for name, key in (COSTS | SHIPPED_COSTS).items() if key in items[0]}
        rows += [[name, *(f"{item[key]:,}" for item in items)] for name, key in costs.items()]
    print_table(title, columns, rows)
