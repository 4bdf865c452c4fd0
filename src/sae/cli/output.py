"""Output of the commands: results on standard output, everything else on standard error."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import rich.table
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.text import Text

from sae.core.objectives import ERROR_CORRELATION
from sae.core.table import MISSING, Table, four_digits, show, text_table

if TYPE_CHECKING:
    from sae.data.training_profile import DataProfile
    from sae.records.evaluated import Decision, SplitEvaluation
    from sae.records.evaluation import ShiftEvaluation

METRIC_ROWS = (
    *("temperature", "accuracy", "top5_accuracy", "f1", "auroc", "average_precision"),
    *("nll", "nll_scaled", "ece", "cc_ece", "brier"),
    *("mse", "rmse", "mae", "r2", "pinball", "coverage_90", "width_90"),
    *("aurc", "disagreement", "diversity_disagreement", ERROR_CORRELATION, "auroc_entropy"),
)
"""Metrics that tables show; JSON has all."""
MOST_FINDINGS = 6
"""Lines about data that are printed."""
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
    """Print one JSON object on standard output; numbers that are not finite, which JSON does not have, are null."""
    sys.stdout.write(json.dumps(_in_json(values), indent=2, allow_nan=False) + "\n")


def _in_json(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _in_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_in_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def print_table(table: Table) -> None:
    """Print a table on standard output, numbers to the right.

    Where it is too wide, its columns are printed below one another in several parts, each with the first column, so
    that no number is cut and no word is broken.
    """
    console = result_console()
    console.print(table.title, style="bold", markup=False, highlight=False)
    for part in in_parts(table, console.width):
        console.print(_rich_table(part, console.width), crop=False)


def fits(table: Table) -> bool:
    """Return whether the terminal is wide enough for every word and number of a table."""
    return _narrowest(table) <= result_console().width


def in_parts(table: Table, width: int) -> list[Table]:
    """Return tables of this width that have all columns of a table, each with the first; one column may be wider."""
    chosen: list[list[int]] = []
    for index in range(1, len(table.columns)):
        if chosen and _narrowest(with_columns(table, [0, *chosen[-1], index])) <= width:
            chosen[-1].append(index)
        else:
            chosen.append([index])
    return [with_columns(table, [0, *part]) for part in chosen] or [table]


def with_columns(table: Table, kept: Sequence[int]) -> Table:
    """Return a table with some of its columns."""
    rows = tuple(tuple(row[index] for index in kept) for row in table.rows)
    return replace(table, columns=tuple(table.columns[index] for index in kept), rows=rows)


def _narrowest(table: Table) -> int:
    """Return the width that a table needs at least, for its longest words and its numbers."""
    return sum(least for least, _ in _widths(table)) + _borders(table)


def _borders(table: Table) -> int:
    return 3 * len(table.columns) + 1


def _widths(table: Table) -> list[tuple[int, int]]:
    """Return for each column the width of what must not be broken, and the width at which nothing is broken."""
    widths = []
    for index, column in enumerate(table.columns):
        texts = [show(row[index], column) for row in table.rows]
        whole = (
            texts if index == 0 or _holds_numbers(table, index) else [word for text in texts for word in text.split()]
        )
        least = max(map(cell_len, [*whole, *column.heading.split()]), default=0)
        widths.append((least, max(map(cell_len, [*texts, column.heading]))))
    return widths


def _shared_widths(table: Table, width: int) -> list[int]:
    """Share out a width among columns: what each needs at least, then one more for each that has use for it."""
    limits = _widths(table)
    shared = [least for least, _ in limits]
    left = width - _borders(table) - sum(shared)
    while left > 0 and any(own < most for own, (_, most) in zip(shared, limits, strict=True)):
        for index, (_, most) in enumerate(limits):
            if left > 0 and shared[index] < most:
                shared[index], left = shared[index] + 1, left - 1
    return shared


def _rich_table(table: Table, width: int) -> rich.table.Table:
    """Return a table for the terminal, in which texts may be broken into lines between words, but numbers may not."""
    shown = rich.table.Table()
    widths = _shared_widths(table, width)
    for index, column in enumerate(table.columns):
        justify: Literal["left", "right"] = "right" if index > 0 and _holds_numbers(table, index) else "left"
        shown.add_column(column.heading, justify=justify, width=widths[index])
    for row in table.rows:
        shown.add_row(*(Text(show(*pair), style="bold" if pair[0].strong else "") for pair in table.cells(row)))
    return shown


def _holds_numbers(table: Table, index: int) -> bool:
    """Return whether a column holds numbers, perhaps written as texts with a unit or a mark."""
    texts = [show(row[index], table.columns[index]) for row in table.rows]
    return table.is_numeric(index) or all(text[:1].isdigit() or text[:1] in ("+", "-", MISSING) for text in texts)


def result_console() -> Console:
    """Return a console on standard output, 200 characters wide if that is not a terminal and COLUMNS is not set."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=200)


def print_line(line: str) -> None:
    """Print a line on standard output without wrapping it, so that a command in it can be copied."""
    sys.stdout.write(f"{line}\n")


def print_text(text: str) -> None:
    """Print a sentence on standard output, broken between words where the terminal is narrower."""
    result_console().print(text, markup=False, highlight=False)


def print_message(message: str) -> None:
    """Print a message for the user on standard error, on a terminal broken between words."""
    console = Console(stderr=True, highlight=False)
    console.print(message, markup=False, soft_wrap=not console.is_terminal)


def say_exits(run: object, eval_exits: int, most: int) -> None:
    """Say at which K′ a network is read by default, if it can be read at several."""
    if most > 1:
        of = f"{eval_exits} of {most} exits per input"
        print_message(f"{run} is read at {of}, which is best on validation; --eval-exits names others")


def print_findings(profile: "DataProfile", name: str) -> None:
    """Print what is wrong with data, the worst first, a line each, on standard error."""
    findings = profile.findings()
    for finding in findings[:MOST_FINDINGS]:
        print_message(f"warning: {name}: {finding}")
    if len(findings) > MOST_FINDINGS:
        print_message(f"{len(findings) - MOST_FINDINGS} more: sae data info {name} --json")


@contextmanager
def download_bar(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show the progress of a download on standard error; show nothing if that is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:  # rich before 15 would print an empty line
        yield lambda _done, _total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_evaluation(found: "SplitEvaluation", shift: "ShiftEvaluation | None" = None) -> None:
    """Print one column for each number of exits, the chosen one marked, then shift and other sets if evaluated.

    Args:
        found: The evaluation.
        shift: What was measured under shift, now or before; it tells what temperature scaling does there.
    """
    from sae.analysis.temperature import effect_under_shift

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
        print_line(effect_under_shift(shift.at(found.exits).metrics if shift else {}))
        for remark, exits in _temperature_remarks(found).items():
            noun = "exit" if list(exits) == [1] else "exits"
            print_line(f"{' and '.join(map(str, exits))} {noun}: {remark}" if len(scaled) > 1 else remark)
    if found.decision:
        print_text(_decided(found.decision, found.split))
    if found.shift:
        shifted = {reading.eval_exits: reading.metrics for reading in found.shift.readings}
        title = f"mean over {found.shift.num_sets} corrupted sets"
        print_table(by_exits_table(title, shifted, found.exits, found.target))
    if found.ood:
        rows = [[key, f"{value:.4f}"] for key, value in found.ood.metrics.items()]
        print_table(text_table(f"detecting {found.ood.other} among {found.split} samples", ["", "value"], rows))


def _decided(decision: "Decision", split: str) -> str:
    """Return decisions at a threshold as a sentence."""
    recall, precision = ("none" if one is None else f"{one:.4f}" for one in (decision.recall, decision.precision))
    origin = ", the cheapest on validation" if decision.is_best else ""
    cost = "" if decision.mean_cost is None else f", cost {decision.mean_cost:.4g} per sample"
    return (
        f"{decision.positive} from a probability of {decision.threshold:.4g} on{origin}: on {split}, recall {recall}, "
        f"precision {precision}{cost} ({decision.true_positives:,} right and {decision.false_positives:,} wrong "
        f"positives, {decision.false_negatives:,} missed)"
    )


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
