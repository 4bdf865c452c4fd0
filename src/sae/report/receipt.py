"""The receipt of a report: quality, calibration, worth, cost and time of the pick and of its rivals, as a table."""

from collections.abc import Sequence

from sae.analysis.baselines import MADE_WITH, SAID
from sae.analysis.candidates import Candidate
from sae.analysis.ensemble_equivalent import EnsembleEquivalent
from sae.analysis.evidence import Evidence
from sae.analysis.network_plan import read_at
from sae.analysis.results import Result, Tested
from sae.analysis.statistics import SCALED, Spread
from sae.core.objectives import metric_label
from sae.core.table import MISSING, Cell, Column, Table, digits_for, show
from sae.core.wording import count
from sae.records.baselines import Measured
from sae.records.receipt import ReceiptRow
from sae.report.findings import Findings, role_label
from sae.report.labels import SHOWN_COSTS, metric_column
from sae.report.tables import number_cell, spread_cell

SHIPPED_COSTS = ("shipped_flops", "shipped_params")
COUNTED = " as counted in the paper"


def receipt_table(found: Findings) -> Table:
    """Compare the pick with its rivals: a column for each, a row for each measure; costs also as multiples.

    Metrics are over seeds. Costs, time and size are those of the networks to ship: other seeds may choose other exits.
    """
    shown, baselines = found.shown, _fitted(found)
    is_shifted = all(item.shift for item in shown.values())
    texts = [*(_configuration_text(found.chosen[role]) for role in shown), *(MADE_WITH for _ in baselines)]
    rows = [
        ["configuration", *texts],
        ["runs", *(_runs_text(item, found) for item in shown.values())],
        *_worth_rows(found),
        *(row for name in found.metrics for row in (_metric_row(found, name, "test"), *_difference_rows(found, name))),
        *(_metric_row(found, name, "test") for name in SAID[found.task] if baselines and name not in found.metrics),
        *_scaled_rows(found),
        *(_metric_row(found, name, "shift") for name in found.metrics if is_shifted),
        *(_cost_row(found, name) for name in (*SHOWN_COSTS, *SHIPPED_COSTS)),
        *_shipped_rows(found),
    ]
    columns = (Column("Measure"), *map(Column, (*map(role_label, shown), *(item.name for item in baselines))))
    cells = tuple(tuple(map(Cell, (*row, *[MISSING] * (len(columns) - len(row))))) for row in rows)
    return Table("receipt", "Receipt", _receipt_caption(found), columns, cells)


def _fitted(found: Findings) -> Sequence[Measured]:
    """Return the baselines with a column: those that look at the inputs."""
    return found.baselines[1:]


def _receipt_caption(found: Findings) -> str:
    first = metric_label(found.record.objectives[0].name)
    several = (
        ", mean ± standard deviation over seeds" if any(len(item.runs) > 1 for item in found.shown.values()) else ""
    )
    told = [f"Metrics: on the test split{several}."]
    if any(item.where == "test" for items in found.headline.evidence.values() for item in items):
        told.append("Difference: the pick minus the other, with its 95 % interval.")
    if found.headline.worth and found.headline.ensemble:
        told.append(
            f"Worth: the number of members of {found.headline.ensemble.label} with the same NLL after temperature "
            "scaling, with its 95 % interval."
        )
    told += _scaling_caption(found)
    multiples = ", with multiples of the pick's in brackets" if len(found.shown) > 1 else ""
    told.append(
        f"Costs of the networks to ship{multiples}; as counted in the paper: without the parts that are not "
        "used; as shipped: with layers merged, too."
    )
    told += ["Time: onnxruntime on one thread, measured side by side."] if found.receipt else []
    if found.receipt and found.receipt.refit:
        told.append(f"This file: {found.receipt.refit_text}")
    told += [f"Rivals: the best of their method by {first} on validation."] if len(found.shown) > 1 else []
    told += [f"{MADE_WITH}: simple baselines on the same data, with default settings."] if _fitted(found) else []
    return " ".join(told)


def _scaling_caption(found: Findings) -> list[str]:
    """Say how temperatures were fitted, and which were not applied."""
    scalings = found.headline.scalings
    if not scalings:
        is_scaled = any(_scaled(found, role, name) for role in found.shown for name in found.metrics)
        return ["Scaled: at a temperature that was fitted for each run on validation samples."] if is_scaled else []
    sizes = sorted({item.num_samples for item in scalings.values()})
    told = [f"Scaled: at a temperature T, fitted for each run on {' or '.join(map(str, sizes))} validation samples."]
    for role, item in scalings.items():
        name = role_label(role).capitalize()
        if item.num_bounded:
            told.append(f"{name}: T ran to its bound in {count(item.num_bounded, 'run')}, so it was not applied there.")
    return told


def _worth_rows(found: Findings) -> list[list[str]]:
    """Return how many members of a deep ensemble each network is worth, if that is known."""
    headline = found.headline
    if not headline.worth or headline.ensemble is None:
        return []
    texts = []
    for role, item in found.shown.items():
        own = item is headline.ensemble
        texts.append("all of them" if own else worth_range(headline.worth[role]) if role in headline.worth else MISSING)
    return [[f"worth, in members of {headline.ensemble.label} ↑", *texts]]


def _difference_rows(found: Findings, name: str) -> list[list[str]]:
    """Return the differences of the pick to its rivals in a metric, each with its interval."""
    items = {
        role: next((item for item in evidence if item.metric == name and item.where == "test"), None)
        for role, evidence in found.headline.evidence.items()
    }
    if not any(items.values()):
        return []
    texts = [difference_text(item) if (item := items.get(role)) else MISSING for role in found.shown]
    return [[f"{metric_label(name)}, difference", *texts]]


def difference_text(item: Evidence) -> str:
    """Write a difference with its interval, `−0.012 (−0.020 to −0.004)`."""
    digits = digits_for([item.value, item.low, item.high])
    value, low, high = (f"{number:+.{digits}f}".replace("-", "−") for number in (item.value, item.low, item.high))
    return f"{value} ({low} to {high})"


def _scaled_rows(found: Findings) -> list[list[str]]:
    """Return the temperatures and the metrics that they change, where they are known."""
    scalings, rows = found.headline.scalings, []
    if scalings:
        applied = [scalings[role].applied if role in scalings else None for role in found.shown]
        cells = [Cell(None) if spread is None else Cell(spread.mean, spread.std) for spread in applied]
        rows.append(["temperature T", *(show(cell, Column("T", digits=2)) for cell in cells)])
    for name in found.metrics:
        spreads = [_scaled(found, role, name) for role in found.shown]
        if any(spread is not None for spread in spreads):
            cells = [spread_cell(spread, name) for spread in spreads]
            column = metric_column(name, found.task, _numbers(cells))
            rows.append([f"{column.title}, scaled {column.better}", *(show(cell, column) for cell in cells)])
    return rows


def _scaled(found: Findings, role: str, name: str) -> Spread | None:
    scaling = found.headline.scalings.get(role)
    return scaling.metrics.get(name) if scaling else found.shown[role].test.get(f"{name}{SCALED}")


def _metric_row(found: Findings, name: str, where: Tested) -> list[str]:
    cells = [spread_cell(item.get(name, where), name) for item in found.shown.values()]
    cells += [number_cell(item.test.get(name), name) for item in _fitted(found) if where == "test"]
    column = metric_column(name, found.task, _numbers(cells), under_shift=where == "shift")
    return [column.heading, *(show(cell, column) for cell in cells)]


def _cost_row(found: Findings, name: str) -> list[str]:
    cells = [number_cell(found.chosen[role].values.get(name), name) for role in found.shown]
    column = metric_column(name, found.task, _numbers(cells))
    heading = f"{column.title}{'' if name in SHIPPED_COSTS else COUNTED} {column.better}"
    return [heading, *(f"{show(cell, column)}{_multiple(cell.value, cells[0].value)}" for cell in cells)]


def _shipped_rows(found: Findings) -> list[list[str]]:
    """Return what shipping has measured: the results of the very files, milliseconds, and sizes."""
    if not found.receipt or any(role not in found.receipt.rows for role in found.shown):
        return []
    shipped = [found.receipt.rows[role] for role in found.shown]
    times, sizes = [item.ms for item in shipped], [item.bytes for item in shipped]
    return [
        *(_file_row(found, name, shipped) for name in found.metrics if all(name in item.metrics for item in shipped)),
        [f"ms for {found.receipt.batch} samples ↓", *(f"{ms:,.3f}{_multiple(ms, times[0])}" for ms in times)],
        ["file, kB ↓", *(f"{size / 1e3:,.0f}{_multiple(size, sizes[0])}" for size in sizes)],
    ]


def _file_row(found: Findings, name: str, shipped: Sequence[ReceiptRow]) -> list[str]:
    """Return a metric of the shipped files, each a single network."""
    cells = [number_cell(item.metrics[name], name) for item in shipped]
    column = metric_column(name, found.task, _numbers(cells))
    return [f"{column.title}, this file {column.better}", *(show(cell, column) for cell in cells)]


def _numbers(cells: Sequence[Cell]) -> list[float]:
    return [cell.value for cell in cells if isinstance(cell.value, float | int)]


def _multiple(value: float | str | None, first: float | str | None) -> str:
    """Return a number as a multiple of the first, in brackets; nothing where that would be written as 1."""
    if not isinstance(value, float | int) or not isinstance(first, float | int) or value == first:
        return ""
    multiple = f"{value / first:.3g}"
    return "" if multiple == "1" else f" ({multiple} ×)"


def _runs_text(item: Result, found: Findings) -> str:
    return f"{len(item.runs)} on new seeds" if found.is_confirmed(item) else "the search's own"


def _configuration_text(item: Candidate) -> str:
    exits = f", {read_at(item.active)}" if item.config.method.has_exits else ""
    return f"{item.label}: {item.config.summary}{exits}"


def worth_range(worth: EnsembleEquivalent) -> str:
    """Write a deep-ensemble equivalent with its interval.

    Example:
        >>> worth_range(EnsembleEquivalent(2.3, 1.9, 2.8, (0.4, 0.3, 0.25, 0.2)))
        '2.3 members (1.9 to 2.8)'
    """
    if worth.is_open:
        return "not enough evidence to tell"
    return f"{worth.in_words} ({worth.describe(worth.low)} to {worth.describe(worth.high)})"
