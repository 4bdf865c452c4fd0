"""What the pick comes to beside its rivals, at a glance: quality, calibration, cost, time and size."""

from collections.abc import Sequence

from sae.analysis.results import Result, Where
from sae.core.table import Cell, Column, Table, show
from sae.report.findings import COSTS, ROLES, Findings
from sae.report.metric_names import metric_column, name_of
from sae.report.result_tables import number_cell, spread_cell


def receipt_table(found: Findings) -> Table:
    """A column for the pick and each rival, a row for each measure; costs also as multiples of the pick's.

    Metrics are over seeds. Costs, time and size are of the networks that were searched, which are the ones
    that are shipped: other seeds may choose other exits.
    """
    shown = found.shown
    is_shifted = all(item.shift for item in shown.values())
    rows = [
        ["configuration", *(f"{item.label}: {item.settings}{_read_at(item)}" for item in shown.values())],
        ["runs", *(_runs(item, found) for item in shown.values())],
        *(_metric_row(found, name, "test") for name in found.metrics),
        *(_metric_row(found, name, "shift") for name in found.metrics if is_shifted),
        *(_cost_row(found, name) for name in COSTS),
        *_shipped_rows(found),
    ]
    time = "; time in onnxruntime on one thread, measured side by side" if found.receipt else ""
    first = name_of(found.record.objectives[0].name)
    caption = (
        f"Metrics are of the test split, over seeds where there are several; costs are of the network to ship, in "
        f"brackets as multiples of the pick's{time}. Rivals are the best of their kind by {first} on validation."
    )
    columns = (Column("Measure"), *(Column(ROLES[role]) for role in shown))
    return Table("receipt", "Receipt", caption, columns, tuple(tuple(Cell(text) for text in row) for row in rows))


def _metric_row(found: Findings, name: str, where: Where) -> list[str]:
    cells = [spread_cell(item.get(name, where), name) for item in found.shown.values()]
    column = metric_column(name, found.task, _numbers(cells), under_shift=where == "shift")
    return [f"{column.title} {column.better}", *(show(cell, column) for cell in cells)]


def _cost_row(found: Findings, name: str) -> list[str]:
    cells = [number_cell(found.searched(role).values.get(name), name) for role in found.shown]
    column = metric_column(name, found.task, _numbers(cells))
    return [f"{column.title} {column.better}", *(f"{show(cell, column)}{_times(cell, cells[0])}" for cell in cells)]


def _shipped_rows(found: Findings) -> list[list[str]]:
    """What shipping has measured: milliseconds and the size of the file."""
    shipped = (found.receipt or {}).get("rows", {})
    if not found.receipt or any(role not in shipped for role in found.shown):
        return []
    rows = ((f"ms for {found.receipt['batch']} samples ↓", "ms", 1.0, 3), ("file, kB ↓", "bytes", 1e3, 0))
    return [
        [title, *(f"{value / unit:,.{digits}f}{_times(Cell(value), Cell(values[0]))}" for value in values)]
        for title, key, unit, digits in rows
        for values in [[shipped[role][key] for role in found.shown]]
    ]


def _numbers(cells: Sequence[Cell]) -> list[float]:
    return [cell.value for cell in cells if isinstance(cell.value, float | int)]


def _times(cell: Cell, first: Cell) -> str:
    """How many times the first; nothing for the first itself."""
    if not isinstance(cell.value, float | int) or not isinstance(first.value, float | int) or cell.value == first.value:
        return ""
    return f" ({cell.value / first.value:.3g} ×)"


def _runs(item: Result, found: Findings) -> str:
    if not any(item is other for other in found.results):
        return "the search's own"
    return f"{len(item.runs)} on other seeds"


def _read_at(item: Result) -> str:
    return f" K′={item.eval_exits}" if item.method == "sae" else ""
