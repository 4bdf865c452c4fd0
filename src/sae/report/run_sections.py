"""The report of single runs: configurations side by side, without a choice among them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sae.analysis.curves import risk_curve
from sae.analysis.depth import depth_preference, read_preferences
from sae.analysis.results import Result, headline, is_whole
from sae.core.errors import RecordError
from sae.core.wording import count
from sae.records.run import RunRecord
from sae.report.confirmed_sections import calibration_figures, corruption_figure
from sae.report.content import Figure, Lead, Note, Section, prefixed, section
from sae.report.figures.curves import training_figure
from sae.report.figures.depth import depth_figure
from sae.report.tables import confirmed_table

MOST_COMPARED = 6
"""Configurations that get a panel each."""


def run_lead(runs: Sequence[RunRecord], results: Sequence[Result]) -> Lead:
    """What is on the page; a choice needs a study, which chooses on validation."""
    sentence = f"{count(len(results), 'configuration')} from {count(len(runs), 'run')}."
    if not results:
        sentence = "No run has finished yet."
    unfinished = sum(not is_whole(run) for run in runs)
    reasons = (
        "Nothing is recommended: choosing by test numbers would flatter it. `sae search` chooses on validation.",
        *([f"{unfinished} of the runs are left out: unfinished, failed or damaged."] if unfinished else []),
    )
    return Lead(sentence, reasons)


def run_sections(results: Sequence[Result]) -> tuple[Section, ...]:
    """A section for each data set and task, as numbers of different ones cannot be compared; none of no runs."""
    by_data: dict[str, list[Result]] = {}
    for item in results:
        by_data.setdefault(_data_of(item), []).append(item)
    sections = [_section(data, members) for data, members in by_data.items()]
    if len(sections) < 2:
        return tuple(sections)
    return tuple(
        replace(prefixed(one, name), title=one.title) for one, name in zip(sections, _names(by_data), strict=True)
    )


def _data_of(item: Result) -> str:
    """What was predicted of which samples, `digits, classification`: only runs that share it can be compared."""
    data = item.config.data
    parts = [
        data.name,
        f"{_task_of(item)}{f' of {data.target}' if data.target else ''}",
        *([f"{data.size} pixels"] if data.size else []),
        *([f"split {data.split_seed}"] if data.split_seed else []),
    ]
    return ", ".join(parts)


def _task_of(item: Result) -> str:
    return "regression" if "mse" in item.test else item.config.data.task or "classification"


def _names(texts: Iterable[str]) -> list[str]:
    """A name for each text that can stand in an address and of a file, with a number so that no two are alike."""
    shortened = (re.sub(r"[^a-z0-9]+", "-", Path(text).name.lower()).strip("-") for text in texts)
    return [f"{number}-{text}" for number, text in enumerate(shortened, start=1)]


def _section(data: str, results: Sequence[Result]) -> Section:
    """Numbers, training, calibration, depth and shift of runs on one data set."""
    task = _task_of(results[0])
    metrics = headline(task, results[0].config.data.name)
    compared = [(item.label, item) for item in results[:MOST_COMPARED]]
    parts = (
        confirmed_table(results, metrics, task, name="runs", title="The runs"),
        training_figure(_histories(results), name="training", title="Training"),
        *calibration_figures(compared),
        _depth(results),
        corruption_figure(compared, metrics[0], task),
        _without(compared),
    )
    intro = "On the test split; runs that differ in their seed only are one configuration, mean ± standard deviation."
    return section("the-runs", f"The runs on {data}", intro, *parts)


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
