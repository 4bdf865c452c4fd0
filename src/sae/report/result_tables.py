"""What configurations come to as tables: over seeds, under shift, the best of each class, ranks and intervals."""

import math
from collections.abc import Sequence

from sae.analysis.best import best_by_kind
from sae.analysis.ranking import MeanRank
from sae.analysis.results import Result, Where
from sae.analysis.spread import Spread
from sae.core.objectives import METRICS
from sae.core.table import Cell, Column, Table, digits_for, mark_best
from sae.report.findings import COSTS
from sae.report.kinds import LOOKS
from sae.report.metric_names import metric_column, name_of, unit_of

LEVELS = (50, 90, 95)
"""Per cent of the values that intervals are to hold."""
PLACES = {"test": "the test set", "shift": "the corrupted test sets"}
HEADS = (Column("Configuration"), Column("Method"), Column("Settings"), Column("K′"))
"""Above what names a configuration."""
K_PRIME = "K′ is the number of exits per input that an SAE predicts with."


def confirmed_table(
    results: Sequence[Result],
    metrics: Sequence[str],
    task: str,
    name: str = "confirmed",
    title: str = "Confirmed on other seeds",
) -> Table:
    """Every configuration: mean ± std over seeds on the test set and, where measured, under shift, and costs."""
    measured: list[tuple[str, Where]] = [(metric, "test") for metric in metrics]
    if any(result.shift for result in results):
        measured += [(metric, "shift") for metric in metrics if metric in METRICS[task]]
    measured += [(cost, "test") for cost in COSTS]
    ends = [Column("Seeds"), *([Column("Failed")] if any(result.failed for result in results) else [])]
    columns = [*HEADS, *(_column_of(results, metric, where, task) for metric, where in measured), *ends]
    rows = [
        (
            *_named(result),
            *(spread_cell(result.get(metric, where), metric) for metric, where in measured),
            *(Cell(len(result.runs)), Cell(result.failed))[: len(ends)],
        )
        for result in results
    ]
    caption = f"Mean ± standard deviation over seeds; strong: the best of a column. {K_PRIME}{_seeds_note(results)}"
    return Table(name, title, caption, tuple(columns), mark_best(columns, rows))


def shift_table(results: Sequence[Result], metrics: Sequence[str], task: str, name: str = "shifted") -> Table:
    """Every configuration under shift: how far seeds and how far corrupted sets are apart, told from each other."""
    shown = [metric for metric in metrics if all(metric in (result.shift or {}) for result in results)]
    columns = list(HEADS)
    for metric in shown:
        mean = _column_of(results, metric, "shift", task)
        columns += [mean, Column("std, seeds", digits=mean.digits), Column("std, sets", digits=mean.digits)]
    rows = [
        (*_named(result), *(cell for metric in shown for cell in _shift_cells(result, metric))) for result in results
    ]
    caption = (
        "Means over the 95 corrupted test sets; beside each, the standard deviation over seeds of that mean, and the "
        f"one over the sets, mean of the seeds'. Strong: the best of a column. {K_PRIME}"
    )
    return Table(name, "Under shift, over seeds and over sets", caption, tuple(columns), mark_best(columns, rows))


def _shift_cells(result: Result, metric: str) -> tuple[Cell, Cell, Cell]:
    seeds, sets = (result.shift or {})[metric], (result.shift_over_sets or {}).get(metric)
    return Cell(seeds.mean), Cell(seeds.std), Cell(sets.std if sets else None)


def interval_table(compared: Sequence[tuple[str, Result]], name: str = "intervals") -> Table | None:
    """How many of the values lie in intervals that are to hold a share of them; None where classes are predicted."""
    levels = [level for level in LEVELS if all(_has_intervals(item, level) for _, item in compared)]
    if not compared or not levels:
        return None
    widths = digits_for(item.test[f"width_{level}"].mean for level in levels for _, item in compared)
    columns = [Column("Network")]
    for level in levels:
        columns += [Column(f"in {level} % intervals", digits=3), Column(f"width of {level} %", "↓", widths)]
    keys = [f"{key}_{level}" for level in levels for key in ("coverage", "width")]
    rows = [(Cell(label), *(spread_cell(item.test[key], key) for key in keys)) for label, item in compared]
    caption = "The share of test values inside the intervals, which should be what they promise, and their mean widths."
    return Table(name, "Intervals on the test split", caption, tuple(columns), tuple(rows))


def _has_intervals(item: Result, level: int) -> bool:
    """Whether both are known: how many values intervals hold, and how wide they are."""
    return f"coverage_{level}" in item.test and f"width_{level}" in item.test


def best_table(
    results: Sequence[Result], metrics: Sequence[str], task: str, where: Where = "test", name: str = "best"
) -> Table:
    """The paper's layout: a row for each class and metric, with the configuration of that class that is best in it."""
    found = sorted(best_by_kind(results, metrics, task, where), key=lambda best: _place(best.kind))
    measured = [*metrics, *COSTS]
    heads = [Column("Method"), Column("Confirmed"), Column("Best in"), Column("Configuration"), Column("Settings")]
    shown = [best.result for best in found]
    columns = [*heads, Column("K′"), *(_column_of(shown, metric, where, task) for metric in measured)]
    rows = []
    for best in found:
        label, method, settings, k_prime = _named(best.result)
        first = (method, Cell(best.configurations), Cell(name_of(best.metric)), label, settings, k_prime)
        rows.append((*first, *(spread_cell(best.result.get(metric, where), metric) for metric in measured)))
    caption = (
        f"For each class of methods the configuration that is best in each metric on {PLACES[where]}, mean ± standard "
        f"deviation over seeds; strong: the best of a column. Chosen by these very numbers, so they flatter a little. "
        f"Confirmed: how many configurations of the class were trained on other seeds. {K_PRIME}"
    )
    return Table(name, f"Best of each class on {PLACES[where]}", caption, tuple(columns), mark_best(columns, rows))


def rank_table(ranks: Sequence[MeanRank], where: Where = "test", name: str = "ranks") -> Table:
    """Mean rank of each class in each metric, 1 is best."""
    metrics = list(dict.fromkeys(rank.metric for rank in ranks))
    kinds = sorted({rank.kind for rank in ranks}, key=_place)
    by_place = {(rank.kind, rank.metric): rank for rank in ranks}
    ranked = (Column(f"rank in {name_of(metric)}", "↓", 2) for metric in metrics)
    columns = [Column("Method"), *ranked, Column("Data sets")]
    rows = []
    for kind in kinds:
        found = [by_place.get((kind, metric)) for metric in metrics]
        present = max(rank.datasets for rank in found if rank)
        cells = (Cell(rank.mean, rank.std) if rank else Cell(None) for rank in found)
        rows.append((Cell(LOOKS[kind].name), *cells, Cell(present)))
    caption = (
        f"Configurations of a class are averaged in each data set, on {PLACES[where]}; classes are ranked by that, 1 is"
        " best, and ranks averaged over the data sets in which the class is present (± standard deviation over these). "
        "Strong: the best of a column. The fewest FLOPs alone make no good network."
    )
    return Table(name, f"Ranks on {PLACES[where]}", caption, tuple(columns), mark_best(columns, rows))


def spread_cell(spread: Spread | None, metric: str) -> Cell:
    """A mean in its unit; a spread of nothing, such as that of FLOPs that all seeds share, is not shown."""
    if spread is None:
        return Cell(None)
    unit = unit_of(metric)
    return Cell(spread.mean / unit, spread.std / unit if spread.std else None)


def number_cell(value: float | None, metric: str) -> Cell:
    """A number in its unit; nothing of one that is not finite."""
    return Cell(None) if value is None or not math.isfinite(value) else Cell(value / unit_of(metric))


def _named(result: Result) -> tuple[Cell, Cell, Cell, Cell]:
    k_prime = Cell(result.eval_exits if result.method == "sae" else None)
    return Cell(result.label), Cell(LOOKS[result.kind].name), Cell(result.settings), k_prime


def _column_of(results: Sequence[Result], metric: str, where: Where, task: str) -> Column:
    spreads = [result.get(metric, where) for result in results]
    shown = [spread.mean / unit_of(metric) for spread in spreads if spread is not None]
    return metric_column(metric, task, shown, under_shift=where == "shift")


def _seeds_note(results: Sequence[Result]) -> str:
    """What mean ± std does not tell: runs without shift, numbers that were of no use."""
    fewer = [f"{item.label} ({item.shift_runs})" for item in results if item.shift and item.shift_runs < len(item.runs)]
    useless = sum(spread.left_out for item in results for spread in item.test.values())
    notes = f" Under shift fewer seeds were measured of {', '.join(fewer)}." if fewer else ""
    return notes + (f" {useless} numbers that were not finite are left out." if useless else "")


def _place(kind: str) -> int:
    return list(LOOKS).index(kind)
