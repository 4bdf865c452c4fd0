"""Output of the commands: results on standard output, everything else on standard error."""

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
"""Metrics that tables show; JSON has all."""
SHORT_NAMES = {"diversity_disagreement": "diversity"}
COSTS = {"FLOPs": "flops", "parameters": "params"}
SHIPPED_COSTS = {"shipped FLOPs": "shipped_flops", "shipped params": "shipped_params"}
"""Costs of the exported network; COSTS are those of the pruned network, counted as in the paper."""


def listed_metrics(first: Sequence[str] = METRIC_ROWS) -> list[str]:
    """Return the metrics that tables on the terminal show: some first, then all others that are registered."""
    from sae.core.objectives import METRICS

    return list(dict.fromkeys([*first, *(entry.key for entry in METRICS if entry.is_listed)]))


def print_json(values: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output."""
    sys.stdout.write(json.dumps(values, indent=2, allow_nan=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on standard output, numbers aligned to the right; a file or a pipe gets it in full width."""
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
    """Return a console on standard output, 200 characters wide if that is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=200)


def print_line(line: str) -> None:
    """Print a line on standard output without wrapping it, so that a command in it can be copied."""
    sys.stdout.write(f"{line}\n")


def print_message(message: str) -> None:
    """Print a message for the user on standard error."""
    Console(stderr=True, highlight=False).print(message, markup=False, soft_wrap=True)


@contextmanager
def download_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show the progress of a download on standard error; show nothing if that is not a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_evaluation(report: Mapping[str, Any]) -> None:
    """Print one column for each number of exits, the chosen one marked, then shift and other sets if evaluated."""
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
    """Print metrics as rows and numbers of exits as columns, which fits a narrow terminal."""
    marks = [" ←" if item["exits"] == chosen and len(items) > 1 else "" for item in items]
    columns = ["exits per input", *(f"{item['exits']}{mark}" for item, mark in zip(items, marks, strict=True))]
    keys = [key for key in listed_metrics() if all(key in item["metrics"] for item in items)]
    rows = [[SHORT_NAMES.get(key, key), *(f"{item['metrics'][key]:.4f}" for item in items)] for key in keys]
    if "flops" in items[0]:
        rows.insert(0, ["inputs at exit", *(" ".join(map(str, item["active"])) for item in items)])
        costs = {name: key for name, key in (COSTS | SHIPPED_COSTS).items() if key in items[0]}
        rows += [[name, *(f"{item[key]:,}" for item in items)] for name, key in costs.items()]
    print_table(title, columns, rows)
