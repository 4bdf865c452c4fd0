"""The report of single runs: configurations side by side, without a choice among them."""

import csv
from collections.abc import Sequence
from typing import Any

from sae.analysis.curves import reliability_curve, risk_curve
from sae.analysis.depth import depth_preference, read_preferences
from sae.analysis.results import Result, headline, run_results
from sae.analysis.shifted_sets import means_by_set
from sae.objectives import objective
from sae.record import RunRecord
from sae.report.content import Figure, Lead, Note, Section, Table
from sae.report.depth_figure import depth_figure
from sae.report.reliability_figure import reliability_figure
from sae.report.risk_coverage_figure import risk_coverage_figure
from sae.report.shift_figure import shift_figure
from sae.report.tables import confirmed_table
from sae.report.training_figure import training_figure

MOST_COMPARED = 6
"""Configurations that get a panel each."""


def run_lead(runs: Sequence[RunRecord], results: Sequence[Result]) -> Lead:
    """What is on the page; a choice needs a study, which chooses on validation."""
    sentence = f"{len(results)} configurations from {len(runs)} runs." if results else "No run has finished yet."
    unfinished = len(runs) - sum(len(item.runs) for item in results)
    reasons = (
        "Nothing is recommended here: to choose by test numbers would flatter the choice. `sae search` chooses on validation.",
        *([f"{unfinished} of the runs have not finished and are left out."] if unfinished else []),
    )
    return Lead(sentence, reasons)


def run_sections(runs: Sequence[RunRecord], results: Sequence[Result], prefix: str = "") -> tuple[Section, ...]:
    """Numbers, training, calibration, depth and shift of finished runs; nothing of none."""
    if not results:
        return ()
    task, data = _task(results[0]), results[0].config.data.name
    metrics = headline(task, data)
    parts: list[Figure | Table | Note | None] = [
        confirmed_table(results, metrics, task, name=f"{prefix}runs"),
        training_figure(_histories(results), name=f"{prefix}training", title="Training"),
        reliability_figure(_bins(results), name=f"{prefix}reliability", title="Reliability on the test split"),
        risk_coverage_figure(_risks(results), name=f"{prefix}risk", title="Error among the samples that are kept"),
        _depth(results, prefix),
        _shift(results, task, metrics[0], prefix),
    ]
    intro = "On the test split; runs that differ in their seed only are one configuration, mean ± standard deviation."
    shown = tuple(part for part in parts if part is not None)
    return (Section(f"{prefix}runs-section", "The runs", intro, shown),)


def results_of(runs: Sequence[RunRecord]) -> list[Result]:
    """Configurations of the runs that finished."""
    return run_results(runs)


def _task(result: Result) -> str:
    return "regression" if "mse" in result.test else "classification"


def _histories(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Every epoch of the first run of each configuration."""
    rows = []
    for item in results[:MOST_COMPARED]:
        path = item.runs[0].path / RunRecord.HISTORY
        if path.exists():  # members that were taken from a larger ensemble have none
            with path.open(newline="", encoding="utf-8") as file:
                rows += [
                    {"label": item.label, "kind": item.kind, "epoch": int(row["epoch"])}
                    | {key: float(row[key]) for key in ("loss", "val_nll") if row.get(key)}
                    for row in csv.DictReader(file)
                ]
    return rows


def _bins(results: Sequence[Result]) -> list[dict[str, Any]]:
    curves = ((item, reliability_curve(item)) for item in results[:MOST_COMPARED] if "ece" in item.test)
    return [
        {"label": item.label, "kind": item.kind, "ece": item.test["ece"].mean, "bins": columns_of(curve.rows)}
        for item, curve in curves
        if curve and curve.rows
    ]


def _risks(results: Sequence[Result]) -> list[dict[str, Any]]:
    curves = ((item, risk_curve(item)) for item in results[:MOST_COMPARED])
    return [
        {"label": item.label, "kind": item.kind, **columns_of(curve.rows)}
        for item, curve in curves
        if curve and curve.rows
    ]


def columns_of(rows: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """Rows as lists by their keys."""
    return {key: [row[key] for row in rows] for key in rows[0]}


def _depth(results: Sequence[Result], prefix: str) -> Figure | None:
    preferences = read_preferences(run for item in results for run in item.runs)
    depth = max((item.theta.shape[-1] for item in preferences), default=0)
    rows = depth_preference(preferences, "inputs") if preferences else []
    return depth_figure(rows, depth=depth, name=f"{prefix}depth", title="Which depths?") if rows else None


def _shift(results: Sequence[Result], task: str, metric: str, prefix: str) -> Figure | None:
    rows = [{"label": item.label, "by_set": by_set} for item in results if (by_set := means_by_set(item))]
    title = "Where corruption hurts"
    chosen = objective(metric, task)
    return shift_figure(rows[:MOST_COMPARED], chosen, name=f"{prefix}corruptions", title=title) if rows else None
