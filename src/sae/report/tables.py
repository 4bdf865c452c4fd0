"""Tables of a report."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sae.analysis.best import best_by_kind
from sae.analysis.candidates import Candidate, fronts_by_kind, summary
from sae.analysis.comparison import LEVEL
from sae.analysis.ranking import MeanRank
from sae.analysis.results import Result, Where
from sae.analysis.selection import Selection
from sae.analysis.spread import Spread
from sae.analysis.trial_values import TrialValues
from sae.core.objectives import METRICS
from sae.core.table import Cell, Column, Table, digits_for, mark_best
from sae.report.findings import COSTS
from sae.report.labels import LOOKS, metric_column, name_of, unit_of

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


def front_table(selection: Selection, task: str, name: str = "front") -> Table:
    """What no other configuration beats on validation; the pick is marked."""
    pick, _ = selection.pick()
    measured = list(dict.fromkeys([*(item.name for item in selection.objectives), *COSTS]))
    values = {m: [item.values[m] / unit_of(m) for item in selection.front if m in item.values] for m in measured}
    heads = [Column("Trial"), Column("Method"), Column("Settings"), Column("K′")]
    columns = [*heads, *(metric_column(metric, task, values[metric]) for metric in measured)]
    rows = [
        (
            Cell(f"{item.trial.name}, the pick" if item is pick else item.trial.name),
            *(Cell(LOOKS[item.kind].name), Cell(summary(item.config))),
            Cell(item.eval_exits if item.trial.method == "sae" else None),
            *(number_cell(item.values.get(metric), metric) for metric in measured),
        )
        for item in selection.front
    ]
    caption = f"What no other configuration beats, by validation; strong: the best of a column. {K_PRIME}"
    return Table(name, "The front", caption, tuple(columns), mark_best(columns, rows))


def trials_table(trials: Sequence[TrialValues], metrics: Sequence[str], task: str, name: str = "trials") -> Table:
    """All trials of a study at the K they were trained for, whatever became of them."""
    measured = [*metrics, *COSTS]
    shown = {m: [value / unit_of(m) for item in trials if (value := item.get(m)) is not None] for m in measured}
    heads = [Column("Trial"), Column("Method"), Column("Settings"), Column("State")]
    columns = [*heads, *(metric_column(metric, task, shown[metric]) for metric in measured), Column("Seconds")]
    rows = [
        (
            *(Cell(item.trial.name), Cell(LOOKS[item.kind].name), Cell(item.settings), Cell(item.state)),
            *(number_cell(item.get(metric), metric) for metric in measured),
            Cell(item.seconds),
        )
        for item in trials
    ]
    caption = (
        "Every trial at the K it was trained for; metrics are of the validation split, which alone may choose. "
        "Strong: the best of a column. Seconds are of training."
    )
    return Table(name, "All trials", caption, tuple(columns), mark_best(columns, rows))


def influence_table(rows: Sequence[Mapping[str, Any]], name: str = "influence") -> Table:
    """For each setting ρ or F of each metric with its p-value; strong where p is small for that many tests."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    tests = sum(row["p"] is not None for row in rows)
    lines: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        lines.setdefault((row["setting"], row["statistic"]), {})[row["metric"]] = row
    titles = [name_of(metric) for metric in metrics]
    pairs = [column for title in titles for column in (Column(title, digits=2), Column(f"{title} p", digits=4))]
    body = [
        (
            Cell(setting),
            Cell("ρ" if statistic == "rho" else statistic),
            *(cell for metric in metrics for cell in _test_cells(found.get(metric), tests)),
        )
        for (setting, statistic), found in lines.items()
    ]
    trials = sorted({row["trials"] for row in rows})
    caption = (
        f"Spearman's ρ of continuous settings and ANOVA's F of N, K and W, over {_listed(trials)} SAE trials. Strong: "
        f"p < {LEVEL} / {tests}, so that among these {tests} tests any is marked by chance with a probability of at "
        f"most {LEVEL}; without that care about {LEVEL * tests:.0f} would fall below {LEVEL} by themselves. 0.0000 "
        "is less than 0.00005. A search looks where it is promising, so settings are not independent of each other: "
        "a link is no cause."
    )
    columns = (Column("Setting"), Column("Statistic"), *pairs)
    return Table(name, "What the settings do", caption, columns, tuple(body))


def _test_cells(row: Mapping[str, Any] | None, tests: int) -> tuple[Cell, Cell]:
    if row is None or row["p"] is None:
        return Cell(None), Cell(None)
    return Cell(row["value"]), Cell(row["p"], strong=row["p"] < LEVEL / tests)


def _listed(counts: Sequence[int]) -> str:
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}" if counts else "no"


def class_fronts_table(selection: Selection, task: str, name: str = "class-fronts") -> Table:
    """A row for each class that was tried: its configurations, its own front, and its part of the front of all.

    Args:
        selection: What a study has to offer.
        task: What is predicted.
        name: Of the table.
    """
    first = selection.objectives[0]
    fronts = fronts_by_kind(selection.candidates, selection.objectives, selection.limits)
    best = {kind: min((item.values[first.name] for item in own), key=first.loss) for kind, own in fronts.items()}
    unit = unit_of(first.name)
    metric = metric_column(first.name, task, [value / unit for value in best.values()])
    heads = [Column("Class"), Column("Tried"), Column("On its own front"), Column("Of these on the front")]
    columns = (*heads, Column(f"Best {metric.title}", metric.better, metric.digits))
    rows = [
        (
            Cell(LOOKS[kind].name),
            Cell(sum(item.kind == kind for item in selection.candidates)),
            Cell(len(fronts.get(kind, []))),
            Cell(_shared(fronts.get(kind, []), selection.front)),
            Cell(best[kind] / unit if kind in best else None),
        )
        for kind in LOOKS
        if any(item.kind == kind for item in selection.candidates)
    ]
    caption = (
        "Configurations tried, a trial at each number of exits it can be read at being one; those that no other of the "
        f"same class beats{' within the limits' if selection.limits else ''}; how many of these no other class beats "
        "either; and the best of the class. Strong: the best of all."
    )
    return Table(name, "Fronts of the classes", caption, columns, mark_best(columns, rows))


def _shared(own: list[Candidate], overall: list[Candidate]) -> int:
    return sum(any(item is other for other in overall) for item in own)
