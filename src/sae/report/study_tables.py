"""What a search has tried as tables: its front, all trials, and what the settings do."""

from collections.abc import Mapping, Sequence
from typing import Any

from sae.analysis.candidates import summary
from sae.analysis.comparison import LEVEL
from sae.analysis.selection import Selection
from sae.analysis.trial_values import TrialValues
from sae.core.table import Cell, Column, Table, mark_best
from sae.report.findings import COSTS
from sae.report.kinds import LOOKS
from sae.report.metric_names import metric_column, name_of, unit_of
from sae.report.result_tables import K_PRIME, number_cell


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
