"""Sections and lead of single runs, side by side and without a recommendation."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sae.analysis.curves import risk_curve
from sae.analysis.depth import depth_preference, read_preferences
from sae.analysis.results import Result
from sae.core.errors import RecordError
from sae.core.objectives import TaskName
from sae.core.wording import count
from sae.records.run import Run, RunRecord, read_run
from sae.report.confirmed_sections import calibration_figures, corruption_figure
from sae.report.content import Figure, Lead, Note, Part, Section, prefixed, section, with_data
from sae.report.figures.curves import Epoch, TrainingCurve, training_figure
from sae.report.figures.exits import depth_figure, trim_figure
from sae.report.labels import headline, shown_data
from sae.report.mistake_sections import mistakes_of
from sae.report.network_sections import run_drawings
from sae.report.tables import confirmed_table

MOST_COMPARED = 6
"""Configurations that get panels of their own."""


def run_lead(runs: Sequence[RunRecord], results: Sequence[Result]) -> Lead:
    """Write the lead of runs, which makes no recommendation: only a study can choose on validation."""
    sentence = f"{count(len(results), 'configuration')} from {count(len(runs), 'run')}."
    if not results:
        sentence = "No run has finished yet."
    unfinished = sum(read_run(run).evaluation is None for run in runs)  # results drop copies of a run, too
    reasons = (
        "No recommendation: a network chosen by its test numbers would look better than it is. Use `sae search`, which "
        "chooses on validation.",
        *([f"Left out, because unfinished, failed or damaged: {count(unfinished, 'run')}."] if unfinished else []),
    )
    return Lead(sentence, reasons)


def run_sections(results: Sequence[Result]) -> tuple[Section, ...]:
    """Make a section for each data set and task, since numbers of different ones cannot be compared."""
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
    """Return data and task, `digits, classification`: only runs that share them can be compared."""
    data = item.config.data
    parts = [
        data.name,
        " of ".join(filter(None, [data.task or _task_of(item), ", ".join(data.targets)])),
        *([f"{data.size} pixels"] if data.size else []),
        *([f"split {data.split_seed}"] if data.split_seed else []),
    ]
    return ", ".join(parts)


def _task_of(item: Result) -> TaskName:
    return "regression" if "mse" in item.test else "classification"


def _names(texts: Iterable[str]) -> list[str]:
    """Make texts usable in addresses and file names, with a number each, so that no two are equal."""
    shortened = (re.sub(r"[^a-z0-9]+", "-", Path(text).name.lower()).strip("-") for text in texts)
    return [f"{number}-{text}" for number, text in enumerate(shortened, start=1)]


def _section(data: str, results: Sequence[Result]) -> Section:
    """Show numbers, training, calibration, depth and shift of runs on one data set."""
    task = _task_of(results[0])
    metrics = headline(task, results[0].config.data.name)
    compared = [(item.label, item) for item in results[:MOST_COMPARED]]
    parts = (
        confirmed_table(results, metrics, task, name="runs", title="The runs"),
        *run_drawings(compared),
        *_trims(compared),
        training_figure(_curves(results), name="training", title="Training"),
        *calibration_figures(compared),
        _depth(results),
        corruption_figure(compared, metrics[0], task),
        *_mistakes(results),
        _without(compared),
    )
    intro = "On the test split."
    if any(len(item.runs) > 1 for item in results):
        intro += " Runs that differ only in their seed are one configuration: mean ± standard deviation."
    if any(item.config.method.can_choose_exits for item in results):
        intro += " Each is read at the K′ that is best on validation."
    made = section("the-runs", f"The runs on {data}", intro, *parts)
    return with_data(made, shown_data(results[0].config.data.name))


def _mistakes(results: Sequence[Result]) -> list["Part | None"]:
    """Show the errors of a single configuration that has kept its predictions."""
    if len(results) != 1 or not any(run.record.has(run.record.PREDICTIONS) for run in results[0].runs):
        return []
    intro, parts = mistakes_of(results[0], results[0].config.data.unit)
    return [Note(intro), *parts]


def _trims(compared: Sequence[tuple[str, Result]]) -> list[Figure | Note]:
    """Draw the curve of the first run of each configuration whose members were chosen after training."""
    parts: list[Figure | Note] = []
    trimmed = [(label, item.runs[0].record) for label, item in compared if item.runs[0].record.has(RunRecord.TRIM)]
    for number, (label, record) in enumerate(trimmed, start=1):
        try:
            found = record.read_trimming()
        except RecordError as error:
            parts.append(Note(f"The choice of members cannot be drawn: {error}."))
            continue
        assert found is not None, "the file is there"
        name = "trim" if len(trimmed) == 1 else f"trim-{number}"
        parts.append(trim_figure(found, name=name, title=f"Members chosen after training: {label}"))
    return parts


def _without(compared: Sequence[tuple[str, Result]]) -> Note | None:
    """Name the configurations without a readable history or curves."""
    lacking = {
        "history": [label for label, item in compared if not _epochs(item.runs[0])],
        "curves": [label for label, item in compared if risk_curve(item) is None],
    }
    told = [f"{what} of {'; '.join(labels)}" for what, labels in lacking.items() if labels]
    return Note(f"Missing or damaged: {', and '.join(told)}.") if told else None


def _curves(results: Sequence[Result]) -> list[TrainingCurve]:
    """Return the epochs of the first run of each configuration; members taken from a larger ensemble have none."""
    return [
        TrainingCurve(item.label, item.kind, [_epoch(row) for row in _epochs(item.runs[0])])
        for item in results[:MOST_COMPARED]
    ]


def _epoch(row: Mapping[str, float]) -> Epoch:
    return Epoch(row["epoch"], row.get("loss"), row.get("val_nll"))


def _epochs(run: Run) -> list[dict[str, float]]:
    """Return the epochs of a run, none if its history cannot be read."""
    try:
        return run.record.read_history()
    except RecordError:
        return []


def _depth(results: Sequence[Result]) -> Figure | None:
    preferences = read_preferences(run for item in results for run in item.runs)
    depth = max((item.theta.shape[-1] for item in preferences), default=0)
    rows = depth_preference(preferences, "inputs") if preferences else []
    return depth_figure(rows, depth=depth, name="depth", title="Which depths?")
