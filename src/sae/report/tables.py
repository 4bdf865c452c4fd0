"""Tables of a report: results over seeds and under shift, ranks, intervals, the front, all trials, and influences."""

import math
from collections import Counter
from collections.abc import Sequence

from sae.analysis.candidates import TOLERANCE, Candidate, fold_ties, fronts_by_kind
from sae.analysis.comparison import OR, MeanRank, best_by_kind
from sae.analysis.network_plan import exits_over_seeds, exits_text
from sae.analysis.results import Result, Tested
from sae.analysis.selection import Selection
from sae.analysis.statistics import LEVEL, Spread
from sae.analysis.trials import Influence
from sae.config.methods import all_kinds
from sae.config.run import distinct_summaries
from sae.core.objectives import metric_label, metrics_of
from sae.core.table import Cell, Column, Row, Table, digits_for, mark_best
from sae.core.wording import count
from sae.records.run import Run
from sae.report.labels import SHOWN_COSTS, metric_column, network_key, shown_exits, unit_of

INTERVAL_PERCENTS = (50, 90, 95)
"""Prediction intervals, in per cent."""
PLACES = {"test": "the test set", "shift": "the corrupted test sets"}
EXITS = "Exits used"
NAME_COLUMNS = (Column("Configuration"), Column("Method"), Column("Settings"), Column("K′"), Column(EXITS))
TIES = "Alike"
PARETO, OVER_SETS = "Pareto-optimal", "± over sets"
K_PRIME = (
    "K′: the most exits per input that an SAE predicts from. Exits used: the strongest of each input, without those of "
    "hardly any weight; the cost follows from them."
)


def confirmed_table(
    results: Sequence[Result],
    metrics: Sequence[str],
    task: str,
    name: str = "confirmed",
    title: str = "Results on new seeds",
) -> Table:
    """List every configuration: mean ± std over seeds on the test set and, where measured, under shift, and costs."""
    measured: list[tuple[str, Tested]] = [(metric, "test") for metric in metrics]
    if any(result.shift for result in results):
        measured += [(metric, "shift") for metric in metrics if metric in metrics_of(task)]
    measured += [(cost, "test") for cost in SHOWN_COSTS]
    ends = [Column("Seeds"), *([Column("Failed")] if any(result.failed for result in results) else [])]
    columns = [*NAME_COLUMNS, *(_result_column(results, metric, where, task) for metric, where in measured), *ends]
    rows = [
        (
            *names,
            *(spread_cell(result.get(metric, where), metric) for metric, where in measured),
            *(Cell(len(result.runs)), Cell(result.failed))[: len(ends)],
        )
        for result, names in zip(results, _name_cells(results), strict=True)
    ]
    cells = mark_best(columns, rows)
    spread = "Mean ± standard deviation over seeds." if any(len(item.runs) > 1 for item in results) else ""
    caption = f"{spread}{_bold_note(cells)} {K_PRIME}{_missing_note(results)}".strip()
    return Table(name, title, caption, tuple(columns), cells, _keys(results))


def shift_table(results: Sequence[Result], metrics: Sequence[str], task: str, name: str = "shifted") -> Table:
    """List every configuration under shift, with standard deviations over seeds and over corrupted sets."""
    shown = [metric for metric in metrics if all(metric in (result.shift or {}) for result in results)]
    columns = list(NAME_COLUMNS)
    for metric in shown:
        mean = _result_column(results, metric, "shift", task)
        columns += [mean, Column("std, seeds", digits=mean.digits), Column("std, sets", digits=mean.digits)]
    rows = [
        (*names, *(cell for metric in shown for cell in _shift_cells(result, metric)))
        for result, names in zip(results, _name_cells(results), strict=True)
    ]
    cells = mark_best(columns, rows)
    caption = (
        "Mean over the 95 corrupted test sets, then its standard deviation over seeds, then the standard deviation "
        f"over the sets, averaged over seeds.{_bold_note(cells)} {K_PRIME}"
    )
    title = "Under shift, over seeds and over sets"
    return Table(name, title, caption, tuple(columns), cells, _keys(results))


def _shift_cells(result: Result, metric: str) -> tuple[Cell, Cell, Cell]:
    seeds, sets = (result.shift or {}).get(metric), result.shift_over_sets().get(metric)
    mean, std = (seeds.mean, seeds.std) if seeds else (None, None)
    return Cell(mean), Cell(std), Cell(sets.std if sets else None)


def interval_table(compared: Sequence[tuple[str, Result]], name: str = "intervals") -> Table | None:
    """List how many values lie in prediction intervals, and how wide these are; None for classification."""
    levels = [level for level in INTERVAL_PERCENTS if all(_has_intervals(item, level) for _, item in compared)]
    if not compared or not levels:
        return None
    widths = digits_for(item.test[f"width_{level}"].mean for level in levels for _, item in compared)
    columns = [Column("Network")]
    for level in levels:
        columns += [Column(f"in {level} % intervals", digits=3), Column(f"width of {level} %", "↓", widths)]
    keys = [f"{key}_{level}" for level in levels for key in ("coverage", "width")]
    rows = [(Cell(label), *(spread_cell(item.test[key], key) for key in keys)) for label, item in compared]
    caption = (
        "Share of test values in the prediction intervals of each level, which should match it (0.9 for 90 %), and the "
        "mean width of these intervals."
    )
    return Table(name, "Prediction intervals on the test split", caption, tuple(columns), tuple(rows))


def _has_intervals(item: Result, level: int) -> bool:
    return f"coverage_{level}" in item.test and f"width_{level}" in item.test


def best_table(
    results: Sequence[Result],
    metrics: Sequence[str],
    task: str,
    where: Tested = "test",
    name: str = "best",
    selection: Selection | None = None,
) -> Table:
    """List the best configuration of each kind in each metric, in the layout of the paper.

    Args:
        results: All configurations.
        metrics: Metrics to be best in.
        task: `classification` or `regression`.
        where: Clean or corrupted test sets; the latter have standard deviations over seeds and over sets.
        name: Name of the table.
        selection: The candidates that the configurations were chosen from.
    """
    by_kind = best_by_kind(results, metrics, task, where)
    found = [
        (kind, metric, result) for kind in sorted(by_kind, key=_kind_order) for metric, result in by_kind[kind].items()
    ]
    fronts = own_fronts(selection) if selection else {}
    shown = [result for _, _, result in found]
    columns = [Column("Method"), Column("Confirmed"), Column(PARETO), Column("Best in"), *NAME_COLUMNS[:1]]
    columns += [*NAME_COLUMNS[2:], *(head for metric in metrics for head in _best_columns(shown, metric, where, task))]
    columns += [_result_column(shown, cost, where, task) for cost in SHOWN_COSTS]
    rows = []
    for (kind, metric, result), names in zip(found, _name_cells(shown), strict=True):
        label, method, settings, *exits = names
        confirmed, own = sum(item.kind == kind for item in results), fronts.get(kind)
        first = (method, Cell(confirmed), Cell(len(own) if own else None), Cell(metric_label(metric)), label, settings)
        measured = (cell for one in metrics for cell in _best_cells(result, one, where))
        costs = (spread_cell(result.get(cost, where), cost) for cost in SHOWN_COSTS)
        rows.append((*first, *exits, *measured, *costs))
    cells = mark_best(columns, rows)
    over = ", then the standard deviation over the corrupted sets, averaged over seeds" if where == "shift" else ""
    caption = (
        f"For each kind of method, the configuration that is best in each metric on {PLACES[where]}: mean ± standard "
        f"deviation over seeds{over}.{_bold_note(cells)} The best was chosen by the same numbers, so they are slightly "
        "optimistic. "
        f"Confirmed: how many configurations of the kind were trained on new seeds. {PARETO}: how many candidates of "
        f"the kind are on its own Pareto front. {K_PRIME}"
    )
    title = f"Best of each kind of method on {PLACES[where]}"
    return Table(name, title, caption, tuple(columns), cells, _keys(shown))


def _best_columns(shown: Sequence[Result], metric: str, where: Tested, task: str) -> list[Column]:
    mean = _result_column(shown, metric, where, task)
    return [mean, Column(OVER_SETS, digits=mean.digits)] if where == "shift" else [mean]


def _best_cells(result: Result, metric: str, where: Tested) -> list[Cell]:
    mean = spread_cell(result.get(metric, where), metric)
    return [mean, _shift_cells(result, metric)[2]] if where == "shift" else [mean]


def rank_table(ranks: Sequence[MeanRank], where: Tested = "test", name: str = "ranks") -> Table:
    """List the mean rank of each kind of method in each metric; 1 is best."""
    metrics = list(dict.fromkeys(rank.metric for rank in ranks))
    kinds = sorted({rank.kind for rank in ranks}, key=_kind_order)
    by_place = {(rank.kind, rank.metric): rank for rank in ranks}
    ranked = (Column(f"rank in {OR.join(map(metric_label, metric.split(OR)))}", "↓", 2) for metric in metrics)
    columns = [Column("Method"), *ranked, Column("Data sets")]
    rows = []
    for kind in kinds:
        found = [by_place.get((kind, metric)) for metric in metrics]
        present = max(rank.datasets for rank in found if rank)
        cells = (Cell(rank.mean, rank.std) if rank else Cell(None) for rank in found)
        rows.append((Cell(all_kinds()[kind].label), *cells, Cell(present)))
    marked = mark_best(columns, rows)
    several = any(rank.datasets > 1 for rank in ranks)
    averaged = (
        " Then ranks are averaged over the data sets that have the kind (± standard deviation over these data sets, "
        "dividing by their number)."
    )
    caption = (
        f"Kinds of methods are ranked{' in each data set' if several else ''} by the mean of their configurations on "
        f"{PLACES[where]}; 1 is best.{averaged if several else ''}{_bold_note(marked)} Few FLOPs alone do not make a "
        "good network."
    )
    return Table(name, f"Ranks on {PLACES[where]}", caption, tuple(columns), marked)


def front_table(
    selection: Selection,
    task: str,
    name: str = "front",
    costs: Sequence[str] = SHOWN_COSTS,
    tolerance: float | None = None,
) -> Table:
    """List the Pareto front on validation, with the pick marked; candidates that are nearly the same are one row.

    Args:
        selection: Candidates of a study.
        task: `classification` or `regression`.
        name: Name of the table.
        costs: Costs to show beside the objectives.
        tolerance: Share of a cost by which candidates of one row may differ; 0 gives each a row, None is the default.
    """
    pick, tolerance = selection.pick().candidate, TOLERANCE if tolerance is None else tolerance
    tied = fold_ties(selection.front, selection.objectives, task, pick, tolerance)
    is_folded = any(row.others for row in tied)
    measured = list(dict.fromkeys([*(item.name for item in selection.objectives), *costs]))
    values = {m: [item.values[m] / unit_of(m) for item in selection.front if m in item.values] for m in measured}
    heads = [Column("Trial"), Column("Method"), Column("Settings"), Column("K′"), Column(EXITS)]
    columns = [*heads, *(metric_column(metric, task, values[metric]) for metric in measured)]
    columns += [Column(TIES)] if is_folded else []
    rows = [
        (
            Cell(f"{item.label}, the pick" if item.network == pick.network else item.label),
            *(Cell(item.config.called.label), Cell(settings)),
            Cell(shown_exits(item.config, item.eval_exits)),
            Cell(exits_text(item.active) if item.config.method.has_exits else None),
            *(number_cell(item.values.get(metric), metric) for metric in measured),
            *([Cell(len(row.others))] if is_folded else []),
        )
        for row, settings in zip(tied, distinct_summaries([row.candidate.config for row in tied]), strict=True)
        for item in [row.candidate]
    ]
    place = "corrupted validation images" if selection.is_shifted else "validation"
    cells = mark_best(columns, rows)
    caption = (
        "Pareto-optimal candidates: none of the others is at least as good in every objective and better in one, on "
        f"{place}.{_bold_note(cells)} {K_PRIME}"
    )
    if is_folded:
        caption += (
            f" {TIES}: how many more of the {len(selection.front)} Pareto-optimal candidates are nearly the same: "
            f"within {100 * tolerance:g} % in every cost, and within the smallest difference that matters in every "
            "metric."
        )
    title = "The Pareto front under shift" if selection.is_shifted else "The Pareto front"
    keys = _keys([row.candidate for row in tied])
    return Table(name, title, caption, tuple(columns), cells, keys)


def class_fronts_table(selection: Selection, task: str, name: str = "class-fronts") -> Table:
    """List each kind of method that was tried: its candidates, its own Pareto front, and its share of the overall one.

    Args:
        selection: Candidates of a study.
        task: `classification` or `regression`.
        name: Name of the table.
    """
    first = selection.objectives[0]
    fronts = own_fronts(selection)
    best = {kind: min((item.values[first.name] for item in own), key=first.loss) for kind, own in fronts.items()}
    unit = unit_of(first.name)
    metric = metric_column(first.name, task, [value / unit for value in best.values()])
    heads = [Column("Kind"), Column("Tried"), Column("On its own front"), Column("On the overall front")]
    columns = (*heads, Column(f"Best {metric.title}", metric.better, metric.digits))
    tried = Counter(item.kind for item in selection.candidates)
    rows = [
        (
            Cell(kind.label),
            Cell(tried[key]),
            Cell(len(fronts.get(key, []))),
            Cell(_num_shared(fronts.get(key, []), selection.front)),
            Cell(best[key] / unit if key in best else None),
        )
        for key, kind in all_kinds().items()
        if tried[key]
    ]
    cells = mark_best(columns, rows)
    within = " and within the limits" if selection.limits else ""
    caption = (
        "Tried: candidates; each trained network counts once per choice of exits. On its own front: Pareto-optimal "
        f"among candidates of the same kind{within}. On the overall front: of these, Pareto-optimal among all "
        f"candidates.{_bold_note(cells, 'the best kind')}"
    )
    shifted = " under shift" if selection.is_shifted else ""
    return Table(name, f"Pareto fronts by kind of method{shifted}", caption, columns, cells)


def own_fronts(selection: Selection) -> dict[str, list[Candidate]]:
    """Return the Pareto front of each kind of method among its own candidates."""
    return fronts_by_kind(selection.candidates, selection.objectives, selection.limits)


def _num_shared(own: Sequence[Candidate], overall: Sequence[Candidate]) -> int:
    return sum(any(item is other for other in overall) for item in own)


def trials_table(runs: Sequence[Run], metrics: Sequence[str], task: str, name: str = "trials") -> Table:
    """List all trials of a study with the K they were trained for, in whatever state."""
    measured = [*metrics, *SHOWN_COSTS]
    values = {m: [run.value(m) for run in runs] for m in measured}
    shown = {m: [value / unit_of(m) for value in values[m] if value is not None] for m in measured}
    heads = [Column("Trial"), Column("Method"), Column("Settings"), Column("State")]
    columns = [*heads, *(metric_column(metric, task, shown[metric]) for metric in measured), Column("Seconds")]
    known = [(index, run, run.config) for index, run in enumerate(runs) if run.config is not None]
    summaries = distinct_summaries([config for _, _, config in known])
    rows = [
        (
            *(Cell(run.label), Cell(config.called.label), Cell(settings), Cell(run.state)),
            *(number_cell(values[metric][index], metric) for metric in measured),
            Cell(run.seconds),
        )
        for (index, run, config), settings in zip(known, summaries, strict=True)
    ]
    cells = mark_best(columns, rows)
    caption = (
        "All trials, with the number of exits K they were trained for. Metrics are from the validation split."
        f"{_bold_note(cells)} Seconds: training time."
    )
    keys = tuple(run.label for _, run, _ in known)
    return Table(name, "All trials", caption, tuple(columns), cells, keys)


def influence_table(influences: Sequence[Influence], name: str = "influence") -> Table:
    """List the effect of each setting on each metric, with p-values; bold where p is small for that many tests."""
    metrics = list(dict.fromkeys(item.metric for item in influences))
    tests = sum(item.p is not None for item in influences)
    several = len({item.method for item in influences}) > 1
    lines: dict[tuple[str, str], dict[str, Influence]] = {}
    for item in influences:
        setting = f"{item.method}: {item.setting}" if several else item.setting
        lines.setdefault((setting, item.statistic), {})[item.metric] = item
    titles = [metric_label(metric) for metric in metrics]
    pairs = [column for title in titles for column in (Column(title, digits=2), Column(f"{title} p", digits=4))]
    rows = [
        (
            Cell(setting),
            Cell("ρ" if statistic == "rho" else statistic),
            *(cell for metric in metrics for cell in _influence_cells(found.get(metric), tests)),
        )
        for (setting, statistic), found in lines.items()
    ]
    trials = sorted({item.trials for item in influences})
    known = [item.p for item in influences if item.p is not None]
    bold = "Bold:" if any(p < LEVEL / tests for p in known) else "Nothing is bold: that takes"
    tiny = " 0.0000 means less than 0.00005." if any(p < 0.00005 for p in known) else ""
    missing = " –: the setting did not vary, or in too few trials." if tests < len(lines) * len(metrics) else ""
    caption = (
        f"Over {_trials_text(trials)}. {bold} p < {LEVEL} / {tests} (Bonferroni), so that a false alarm among all "
        f"{tests} tests has a probability of at most {LEVEL}; without this correction about 1 in 20 would have "
        f"p < {LEVEL} by luck alone.{tiny}{missing} The search favours promising settings, so settings depend on each "
        "other: correlation is not causation."
    )
    columns = (Column("Setting"), Column("Statistic"), *pairs)
    return Table(name, "Influence of the settings", caption, columns, tuple(rows))


def _influence_cells(item: Influence | None, tests: int) -> tuple[Cell, Cell]:
    if item is None or item.p is None:
        return Cell(None), Cell(None)
    return Cell(item.value), Cell(item.p, strong=item.p < LEVEL / tests)


def _trials_text(counts: Sequence[int]) -> str:
    if len(counts) > 1:
        return f"{counts[0]} to {counts[-1]} trials"
    return count(counts[0] if counts else 0, "trial")


def _bold_note(rows: Sequence[Row], best: str = "the best of a column") -> str:
    """Say what bold numbers are, where a table has any: the only number of a column is not marked as its best."""
    return f" Bold: {best}." if any(cell.strong for row in rows for cell in row) else ""


def spread_cell(spread: Spread | None, metric: str) -> Cell:
    """Return a mean in its unit; a standard deviation of 0, such as that of FLOPs over seeds, is not shown."""
    if spread is None:
        return Cell(None)
    unit = unit_of(metric)
    return Cell(spread.mean / unit, spread.std / unit if spread.std else None)


def number_cell(value: float | None, metric: str) -> Cell:
    """Return a number in its unit; an empty cell if it is not finite."""
    return Cell(None) if value is None or not math.isfinite(value) else Cell(value / unit_of(metric))


def _keys(found: Sequence[Result] | Sequence[Candidate]) -> tuple[str, ...]:
    return tuple(network_key(item.label, item.config, item.eval_exits) for item in found)


def _name_cells(results: Sequence[Result]) -> list[Row]:
    """Return the cells of `NAME_COLUMNS` for each result."""
    rows: list[Row] = []
    for result, settings in zip(results, distinct_summaries([item.config for item in results]), strict=True):
        k_prime = Cell(shown_exits(result.config, result.eval_exits))
        uses = [run.evaluation.test.at(result.eval_exits).active for run in result.runs if run.evaluation]
        exits = Cell(exits_over_seeds(uses or [result.active]) if result.config.method.has_exits else None)
        rows.append((Cell(result.label), Cell(result.config.called.label), Cell(settings), k_prime, exits))
    return rows


def _result_column(results: Sequence[Result], metric: str, where: Tested, task: str) -> Column:
    spreads = [result.get(metric, where) for result in results]
    shown = [spread.mean / unit_of(metric) for spread in spreads if spread is not None]
    return metric_column(metric, task, shown, under_shift=where == "shift")


def _missing_note(results: Sequence[Result]) -> str:
    """Return what the means leave out: seeds without shift, and numbers that are not finite."""
    fewer = [f"{item.label} ({len(item.shifted)})" for item in results if 0 < len(item.shifted) < len(item.runs)]
    not_finite = sum(spread.left_out for item in results for spread in item.test.values())
    note = f" Measured under shift on fewer seeds: {', '.join(fewer)}." if fewer else ""
    return note + (f" Left out because not finite: {count(not_finite, 'number')}." if not_finite else "")


def _kind_order(kind: str) -> int:
    return list(all_kinds()).index(kind)
