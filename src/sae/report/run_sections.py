"""The report of single runs: configurations side by side, without a choice among them."""

from collections.abc import Sequence
from typing import Any

from sae.analysis.curves import risk_curve
from sae.analysis.depth import depth_preference, read_preferences
from sae.analysis.results import Result, headline, is_whole
from sae.errors import RecordError
from sae.record import RunRecord
from sae.report.confirmed_sections import calibration_figures, corruption_figure
from sae.report.content import Figure, Lead, Note, Section, section
from sae.report.depth_figure import depth_figure
from sae.report.tables import confirmed_table
from sae.report.training_figure import training_figure

MOST_COMPARED = 6
"""Configurations that get a panel each."""


def run_lead(runs: Sequence[RunRecord], results: Sequence[Result]) -> Lead:
    """What is on the page; a choice needs a study, which chooses on validation."""
    sentence = f"{_count(len(results), 'configuration')} from {_count(len(runs), 'run')}."
    if not results:
        sentence = "No run has finished yet."
    unfinished = sum(not is_whole(run) for run in runs)
    reasons = (
        "Nothing is recommended: choosing by test numbers would flatter it. `sae search` chooses on validation.",
        *([f"{unfinished} of the runs are left out: unfinished, failed or damaged."] if unfinished else []),
    )
    return Lead(sentence, reasons)


def run_sections(results: Sequence[Result]) -> tuple[Section, ...]:
    """Numbers, training, calibration, depth and shift of finished runs; nothing of none."""
    if not results:
        return ()
    task = "regression" if "mse" in results[0].test else "classification"
    metrics = headline(task, results[0].config.data.name)
    compared = [(item.label, item) for item in results[:MOST_COMPARED]]
    parts = (
        confirmed_table(results, metrics, task, name="runs"),
        training_figure(_histories(results), name="training", title="Training"),
        *calibration_figures(compared),
        _depth(results),
        corruption_figure(compared, metrics[0], task),
        _without(compared),
    )
    intro = "On the test split; runs that differ in their seed only are one configuration, mean ± standard deviation."
    return (section("the-runs", "The runs", intro, *parts),)


def _without(compared: Sequence[tuple[str, Result]]) -> Note | None:
    """What of the compared has no history or curves that can be read."""
    lacking = {
        "history": [label for label, item in compared if not _epochs(item.runs[0])],
        "curves": [label for label, item in compared if risk_curve(item) is None],
    }
    told = [f"{what} of {'; '.join(labels)}" for what, labels in lacking.items() if labels]
    return Note(f"Not there, or not to be read: {', and '.join(told)}.") if told else None


def _histories(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Every epoch of the first run of each configuration; members taken from a larger ensemble have none."""
    return [
        {"label": item.label, "kind": item.kind, "epoch": row["epoch"]}
        | {key: row[key] for key in ("loss", "val_nll") if key in row}
        for item in results[:MOST_COMPARED]
        for row in _epochs(item.runs[0])
    ]


def _epochs(run: RunRecord) -> list[dict[str, float]]:
    """Nothing of a history that cannot be read."""
    try:
        return run.history()
    except RecordError:
        return []


def _depth(results: Sequence[Result]) -> Figure | None:
    preferences = read_preferences(run for item in results for run in item.runs)
    depth = max((item.theta.shape[-1] for item in preferences), default=0)
    rows = depth_preference(preferences, "inputs") if preferences else []
    return depth_figure(rows, depth=depth, name="depth", title="Which depths?") if rows else None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
