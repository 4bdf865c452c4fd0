"""Output of the commands: results on standard output, everything else on standard error."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import rich.table
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.text import Text

from sae.core.objectives import ERROR_CORRELATION
from sae.core.table import MISSING, Table, four_digits, show, text_table

if TYPE_CHECKING:
    from sae.records.evaluation import SplitEvaluation

METRIC_ROWS = (
    *("temperature", "accuracy", "f1", "nll", "ece", "cc_ece", "brier"),
    *("mse", "rmse", "mae", "r2", "pinball", "coverage_90", "width_90"),
    *("aurc", "disagreement", "diversity_disagreement", ERROR_CORRELATION, "auroc_entropy"),
)
"""Metrics that tables show; JSON has all."""
MOST_COLUMNS = 10_000
"""Wider than any table."""
NLL_OF_REGRESSION = "nll is that of a normal distribution without the constant ½·log 2π = 0.919."
SHORT_NAMES = {ERROR_CORRELATION: "correlation", "diversity_disagreement": "diversity"}
COST_ROWS = {"FLOPs": "flops", "parameters": "params"}
SHIPPED_COST_ROWS = {"shipped FLOPs": "shipped_flops", "shipped params": "shipped_params"}
"""Costs of the exported network; COST_ROWS are those of the pruned network, counted as in the paper."""


def listed_metrics(first: Sequence[str] = METRIC_ROWS) -> list[str]:
    """Return the metrics that tables on the terminal show: some first, then all others that are registered."""
    from sae.core.objectives import METRICS

    return list(dict.fromkeys([*first, *(entry.key for entry in METRICS if entry.is_listed)]))


def print_json(values: Mapping[str, object]) -> None:
    """Print one JSON object on standard output."""
    sys.stdout.write(json.dumps(values, indent=2, allow_nan=False) + "\n")


def print_table(table: Table) -> None:
    """Print a table on standard output; it is never cut if that is a file or a pipe, and numbers go to the right."""
    console = result_console()
    console.print(table.title, style="bold", markup=False, highlight=False)
    console.print(_rich_table(table))


def fits(table: Table) -> bool:
    """Return whether the terminal is wide enough for every word and number of a table."""
    return Console(width=MOST_COLUMNS).measure(_rich_table(table)).minimum <= result_console().width


def _rich_table(table: Table) -> rich.table.Table:
    """Return a table for the terminal, in which texts may be broken into lines, but numbers may not."""
    shown = rich.table.Table()
    for index, column in enumerate(table.columns):
        is_number = index > 0 and _holds_numbers(table, index)
        justify: Literal["left", "right"] = "right" if is_number else "left"
        widest = max((cell_len(show(row[index], column)) for row in table.rows), default=0) if is_number else None
        shown.add_column(column.heading, justify=justify, no_wrap=index == 0, min_width=widest)
    for row in table.rows:
        shown.add_row(*(Text(show(*pair), style="bold" if pair[0].strong else "") for pair in table.cells(row)))
    return shown


def _holds_numbers(table: Table, index: int) -> bool:
    """Return whether a column holds numbers, perhaps written as texts with a unit or a mark."""
    texts = [show(row[index], table.columns[index]) for row in table.rows]
    return table.is_numeric(index) or all(text[:1].isdigit() or text[:1] in ("-", MISSING) for text in texts)


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


def print_evaluation(found: "SplitEvaluation") -> None:
    """Print one column for each number of exits, the chosen one marked, then shift and other sets if evaluated."""
    evaluation = found.evaluation
    metrics = {reading.eval_exits: reading.metrics for reading in evaluation.readings}
    active = {"inputs at exit": [" ".join(map(str, reading.active)) for reading in evaluation.readings]}
    costs = {
        name: [f"{reading.costs[key]:,}" for reading in evaluation.readings]
        for name, key in (COST_ROWS | SHIPPED_COST_ROWS).items()
    }
    data = f"other data, {found.split}" if found.other_data else found.split
    title = f"{found.run} on {data}"
    print_table(by_exits_table(title, metrics, found.exits, found.target, first=active, last=costs))
    if "mse" in found.metrics:
        print_line(NLL_OF_REGRESSION)
    scaled = {
        reading.eval_exits: {"temperature": reading.temperature, **reading.calibrated}
        for reading in evaluation.readings
        if reading.temperature is not None and reading.calibrated is not None
    }
    if scaled:
        print_table(by_exits_table("after temperature scaling fitted on val", scaled, found.exits, found.target))
        for remark, exits in _temperature_remarks(found).items():
            noun = "exit" if list(exits) == [1] else "exits"
            print_line(f"{' and '.join(map(str, exits))} {noun}: {remark}" if len(scaled) > 1 else remark)
    if found.shift:
        shifted = {reading.eval_exits: reading.metrics for reading in found.shift.readings}
        title = f"mean over {found.shift.num_sets} corrupted sets"
        print_table(by_exits_table(title, shifted, found.exits, found.target))
    if found.ood:
        rows = [[key, f"{value:.4f}"] for key, value in found.ood.metrics.items()]
        print_table(text_table(f"detecting {found.ood.other} among {found.split} samples", ["", "value"], rows))


def metric_name(key: str, target: str | None = None) -> str:
    """Return the name of a metric, with the target as its unit if it has one: `rmse (price)`, `mse (price²)`."""
    from sae.core.objectives import unit_in

    unit = f" ({measured})" if target and (measured := unit_in(key, target)) else ""
    return f"{SHORT_NAMES.get(key, key)}{unit}"


def _temperature_remarks(found: "SplitEvaluation") -> dict[str, list[int]]:
    """Return what is special about the fitted temperatures, with the numbers of exits that it is true for."""
    remarks: dict[str, list[int]] = {}
    for reading in found.evaluation.readings:
        if reading.temperature_remark is not None:
            remarks.setdefault(reading.temperature_remark, []).append(reading.eval_exits)
    return remarks


def by_exits_table(
    title: str,
    metrics: Mapping[int, Mapping[str, float]],
    chosen: int,
    target: str | None = None,
    first: Mapping[str, Sequence[str]] | None = None,
    last: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """Make a table with metrics as rows and numbers of exits as columns, which fits a narrow terminal.

    A network that can be read in one way only has one column, which names no number of exits.

    Args:
        title: Heading.
        metrics: By number of exits.
        chosen: The number of exits to mark.
        target: The name of what is predicted, as unit of the metrics that have one.
        first: Rows above the metrics, by name.
        last: Rows below them.
    """
    marks = {exits: " ←" if exits == chosen and len(metrics) > 1 else "" for exits in metrics}
    keys = [key for key in listed_metrics() if all(key in values for values in metrics.values())]
    rows = [[metric_name(key, target), *(four_digits(values[key]) for values in metrics.values())] for key in keys]
    above, below = ([[name, *cells] for name, cells in (part or {}).items()] for part in (first, last))
    heads = (
        ["exits per input", *(f"{exits}{mark}" for exits, mark in marks.items())] if len(metrics) > 1 else ["", "value"]
    )
    return text_table(title, heads, above + rows + below)
