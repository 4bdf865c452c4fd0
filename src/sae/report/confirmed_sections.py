"""Sections about what was chosen: on other seeds, under shift, and whether its confidence can be believed."""

import shlex
from collections.abc import Sequence
from typing import Any

from sae.analysis.curves import Curve, reliability_curve, risk_curve
from sae.analysis.ranking import mean_ranks
from sae.analysis.results import Result, Where, unconfirmed
from sae.analysis.shifted_sets import means_by_set
from sae.core.objectives import SHIFTED, objective
from sae.core.table import Table
from sae.report.commands import train_command
from sae.report.content import Figure, Note, Section, section
from sae.report.figures.curves import reliability_figure, risk_coverage_figure
from sae.report.figures.heat import shift_figure
from sae.report.figures.scatter import confirmed_scatter, under_shift
from sae.report.findings import COSTS, Findings
from sae.report.tables import best_table, confirmed_table, interval_table, rank_table, shift_table

Labelled = Sequence[tuple[str, Result]]
"""Configurations with what they are called in figures."""


def confirmed_section(found: Findings) -> Section:
    """What other seeds say of the chosen."""
    title, results = "What holds on other seeds", found.results
    intro = (
        "The chosen configurations, trained again on seeds that the search never saw: mean ± standard deviation on the "
        "clean test split."
    )
    left_out = unconfirmed(found.record) if found.selection and not found.lost.get(found.record.CONFIRMED) else []
    note = Note(f"No run on another seed finished and can be read of: {', '.join(left_out)}.") if left_out else None
    if not results:
        again = f"sae search … --confirm 4 --out {shlex.quote(str(found.record.path))}"
        return section("other-seeds", title, intro, note or Note(f"Nothing was confirmed yet: `{again}` does."))
    rows = [_row(item, found, item.test) for item in results]
    return section(
        "other-seeds",
        title,
        intro,
        confirmed_scatter(rows, found.pairs(), name="confirmed-quality", title="Test split, other seeds"),
        confirmed_table(results, found.metrics, found.task),
        best_table(results, found.metrics, found.task),
        _ranks(found, results, "test"),
        note,
    )


def shift_section(found: Findings) -> Section:
    """The same on corrupted test images."""
    results = [item for item in found.results if item.shift]
    intro = (
        "The test images under 19 corruptions at 5 severities. The spread over seeds says how far a mean can be "
        "trusted; that over corrupted sets, which is larger, how much the kind of damage matters."
    )
    parts: list[Figure | Table | None] = [corruption_figure(found.labelled(), found.metrics[0], found.task)]
    if results:
        rows = [
            _row(item, found, {f"{key}{SHIFTED}": value for key, value in (item.shift or {}).items()})
            for item in results
        ]
        pairs = under_shift(found.pairs())
        parts += [
            confirmed_scatter(rows, pairs, name="shifted-quality", title="Corrupted test images, other seeds"),
            shift_table(results, found.metrics, found.task),
            best_table(results, found.metrics, found.task, "shift", name="best-shifted"),
            _ranks(found, results, "shift"),
        ]
    missing = Note("Not measured: `sae search … --shift` does, of images.")
    without = [label for label, item in found.labelled() if not means_by_set(item)]
    note = Note(f"Corrupted sets one by one are not known of: {'; '.join(without)}.") if without else None
    return section("under-shift", "Under shift", intro, *([*parts, note] if any(parts) else [missing]))


def calibration_section(found: Findings) -> Section:
    """Whether confidence can be believed, and what abstaining buys."""
    what = "Whether a confidence of 90 % is right nine times in ten"
    if found.task == "regression":
        what = "Whether nine in ten values lie in the intervals that are to hold 90 %"
    intro = f"{what}, and what passing the least sure to a human buys."
    parts = [*calibration_figures(found.labelled()), interval_table(found.labelled())]
    without = [label for label, item in found.labelled() if risk_curve(item) is None]
    note = Note(f"No curves are known of: {'; '.join(without)}.") if without else None
    missing = None if any(parts) or note else Note("No curves are known of what is compared.")
    return section("calibration", "Can its confidence be believed?", intro, *parts, note, missing)


def corruption_figure(compared: Labelled, metric: str, task: str) -> Figure | None:
    """Where corruption hurts each of some configurations, and by how much the first differs from the second."""
    known = [(label, by_set) for label, item in compared if (by_set := means_by_set(item))]
    rows = [{"label": label, "by_set": by_set} for label, by_set in known]
    rival = known[1][0] if len(known) > 1 else None
    chosen = objective(metric, task)
    return shift_figure(rows, chosen, name="corruptions", title="Where corruption hurts", difference_to=rival)


def calibration_figures(compared: Labelled) -> tuple[Figure | None, Figure | None]:
    """Reliability, and risk over coverage, of some configurations."""
    bins = [
        {"label": label, "kind": item.kind, "ece": item.test["ece"].mean, "bins": _columns(curve)}
        for label, item in compared
        if "ece" in item.test and (curve := reliability_curve(item))
    ]
    risks = [
        {"label": label, "kind": item.kind, **_columns(curve)}
        for label, item in compared
        if (curve := risk_curve(item))
    ]
    is_regression = any("mse" in item.test for _, item in compared)
    risk = "mean squared error" if is_regression else "share of errors"
    return (
        reliability_figure(bins, name="reliability", title="Reliability on the test split"),
        risk_coverage_figure(risks, risk=risk, name="risk-coverage", title="Error among the samples that are kept"),
    )


def _ranks(found: Findings, results: Sequence[Result], where: Where) -> Table:
    ranks = mean_ranks({found.data_name: results}, [*found.metrics, *COSTS], found.task, where)
    return rank_table(ranks, where, name="ranks" if where == "test" else "ranks-shifted")


def _row(item: Result, found: Findings, measured: dict[str, Any]) -> dict[str, Any]:
    spreads = {**measured, **item.costs}
    return {
        "kind": item.kind,
        "label": item.label,
        "settings": item.settings,
        "eval_exits": item.eval_exits,
        "pick": found.is_pick(item),
        "command": train_command(item.config),
        "seeds": len(item.runs),
        "values": {key: spread.mean for key, spread in spreads.items()},
        "stds": {key: spread.std for key, spread in spreads.items()},
    }


def _columns(curve: Curve) -> dict[str, list[float]]:
    """Rows as lists by their keys."""
    return {key: [row[key] for row in curve.rows] for key in curve.rows[0]} if curve.rows else {}
