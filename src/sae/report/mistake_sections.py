"""Section about what the pick gets wrong on the test split, and whether its confidence says so."""

import math
import shlex
from collections.abc import Sequence

import numpy as np

from sae.analysis.mistakes import FEWEST, Abstention, Classified, Regressed, Segment
from sae.analysis.results import Result
from sae.core.errors import RecordError
from sae.core.table import Cell, Column, Table, digits_for, mark_best
from sae.core.wording import count, percent
from sae.records.predictions import Predictions, SplitPredictions
from sae.records.receipt import PICK
from sae.records.run import Run
from sae.report.content import Gallery, Note, Part, Picture, Section, section
from sae.report.figures.mistakes import confusion_figure, residual_figure
from sae.report.findings import Findings
from sae.report.samples import TestSamples, read_samples
from sae.report.target_tables import target_table

TITLE = "What does it get wrong, and does it know?"
MOST_PICTURES = 12
FEW_PICTURES = 6
"""Pictures of samples that are less telling than errors."""
MOST_SAMPLES = 6
"""Rows of a table of samples."""
MOST_SEGMENTS = 8
MOST_CLASSES = 30
COVERAGES = (1.0, 0.95, 0.9, 0.8)
ABSTAINING = 0.05
"""Share of the samples whose pictures show what abstaining passes on."""
Indexed = Sequence[tuple[str, str, Sequence[int]]]
"""Title, caption and samples of each gallery or table."""


def mistakes_section(found: Findings) -> Section:
    """Show errors, classes and weak segments of the pick."""
    if found.pick is None:
        return section("mistakes", TITLE, "Errors of the pick on the test split.", Note("There is no pick yet."))
    intro, parts = mistakes_of(found.shown[PICK], found.record.target)
    return section("mistakes", TITLE, intro, *parts)


def mistakes_of(item: Result, target: str | None) -> tuple[str, list["Part | None"]]:
    """Return the intro and the parts about the errors of a configuration, read from the first run that can be read.

    Args:
        item: The configuration; runs on new seeds come first.
        target: What a regression predicts.
    """
    run, predictions = _predictions(item)
    if not isinstance(predictions, Predictions):
        return "Errors on the test split.", [Note(predictions)]
    assert run.config is not None, "a finished run has a config"
    split = predictions.test
    if item.eval_exits not in split.readings:
        return "Errors on the test split.", [Note(f"No predictions were kept at {count(item.eval_exits, 'exit')}.")]
    samples = read_samples(run.record, run.config, split)
    missing = Note(f"The samples cannot be shown: {samples}.") if isinstance(samples, str) else None
    shown = None if isinstance(samples, str) else samples
    which = f"{item.label} with seed {run.config.seed}"
    if split.targets.ndim == 2:
        table = target_table(predictions.task, split.readings[item.eval_exits], split.targets, run.config.data.targets)
        return f"{which} on the test split.", [table]
    if predictions.task == "regression":
        return _regressed(split, item.eval_exits, shown, which, target, missing)
    return _classified(split, item.eval_exits, shown, which, missing)


def _predictions(item: Result) -> tuple[Run, Predictions | str]:
    """Return the first run with kept predictions, or the first run and what is missing."""
    for run in item.runs:
        if run.record.has(run.record.PREDICTIONS):
            try:
                return run, Predictions.read(run.record)
            except RecordError as error:
                return run, f"The predictions cannot be read: {error}."
    folder = shlex.quote(str(item.runs[0].record.path))
    return item.runs[0], f"No predictions were kept: `sae evaluate {folder} --keep-predictions` keeps them."


def _classified(
    split: SplitPredictions, exits: int, samples: TestSamples | None, which: str, missing: Note | None
) -> tuple[str, list["Part | None"]]:
    found = Classified(np.exp(split.readings[exits]), split.targets.astype(np.int64))
    classes = _class_names(found, samples)
    total, errors = len(found.targets), int(found.wrong.sum())
    intro = f"{which} on the test split: {errors:,} of {total:,} samples are wrong ({percent(errors / total, 1)})."
    if errors and errors < total:
        sure, unsure = found.confidence[~found.wrong].mean(), found.confidence[found.wrong].mean()
        intro += (
            f" It gives its answers a mean probability of {sure:.2f} where they are right, {unsure:.2f} where wrong."
        )
    passed = max(1, round(ABSTAINING * total))
    spaced = np.linspace(0, passed - 1, min(FEW_PICTURES, passed)).round().astype(int)
    sure_title, unsure_title = "Most confident errors", "Least confident samples"
    shown: Indexed = [
        (
            sure_title,
            "Errors with the highest probability: what it does not know that it gets wrong.",
            found.confident_errors(MOST_PICTURES).tolist(),
        ),
        (unsure_title, "The lowest probabilities, right or wrong.", found.least_confident(FEW_PICTURES).tolist()),
        (
            f"What abstaining on {percent(ABSTAINING)} passes on",
            f"From the {passed:,} least confident samples, evenly spaced.",
            found.least_confident(passed)[spaced].tolist(),
        ),
    ]
    parts: list[Part | None] = [missing]
    if samples is not None and samples.are_images:
        parts += _galleries(found, classes, samples, shown)
    else:
        parts += _sample_tables(found, classes, samples, shown[:2])
    parts += [
        abstention_table(found.abstentions(COVERAGES)),
        confusion_figure(found.confusion(), classes, name="confusion", title="Which classes are confused?"),
        class_table(found, classes),
        segment_table(_segments(found, classes, samples), found.wrong.mean()),
    ]
    return intro, parts


def _class_names(found: Classified, samples: TestSamples | None) -> tuple[str, ...]:
    number = found.probabilities.shape[1]
    known = samples.class_names if samples else ()
    return known if len(known) == number else tuple(map(str, range(number)))


def _galleries(found: Classified, classes: Sequence[str], samples: TestSamples, shown: Indexed) -> list["Part | None"]:
    names = ("confident-errors", "least-confident", "abstained")
    return [
        Gallery(name, title, caption, tuple(_picture(found, classes, samples, index) for index in chosen))
        if chosen
        else None
        for name, (title, caption, chosen) in zip(names, shown, strict=True)
    ]


def _picture(found: Classified, classes: Sequence[str], samples: TestSamples, index: int) -> Picture:
    guess, truth = int(found.predicted[index]), int(found.targets[index])
    chance = found.probabilities[index]
    if guess == truth:
        lines = (f"{classes[truth]}, {chance[truth]:.2f}", "right")
    else:
        lines = (f"said {classes[guess]}, {chance[guess]:.2f}", f"is {classes[truth]}, {chance[truth]:.2f}")
    return Picture(samples.picture(index), lines, is_wrong=guess != truth, number=index)


def _sample_tables(
    found: Classified, classes: Sequence[str], samples: TestSamples | None, shown: Indexed
) -> list["Part | None"]:
    columns = [Column("Test sample"), Column("True"), Column("Predicted"), Column("Probability", digits=3)]
    columns.append(Column("Probability of the truth", digits=3))
    deviating = samples is not None and samples.are_rows
    columns += [Column("Most unusual columns")] if deviating else []
    tables: list[Part | None] = []
    for name, (title, caption, chosen) in zip(("confident-errors", "least-confident"), shown, strict=True):
        rows = [
            (
                Cell(f"{index:,}"),
                Cell(classes[int(found.targets[index])]),
                Cell(classes[int(found.predicted[index])]),
                Cell(float(found.confidence[index])),
                Cell(float(found.probabilities[index, found.targets[index]])),
                *([Cell(samples.deviations(index))] if samples is not None and deviating else []),
            )
            for index in chosen[:MOST_SAMPLES]
        ]
        more = " σ: standard deviations from the mean of the training rows." if deviating else ""
        text = f"{caption} Samples are counted from 0.{more}"
        tables.append(Table(name, title, text, tuple(columns), tuple(rows)) if rows else None)
    return tables


def abstention_table(found: Sequence[Abstention]) -> Table:
    """List what the network passes on, and the errors that remain, if it answers only its most certain samples."""
    columns = tuple(map(Column, ("Answers", "Passed on", "Errors passed on", "Answered", "Errors left")))
    columns += (Column("Error left", "↓", 4),)
    rows = tuple(
        (
            Cell(f"{item.coverage:.0%}"),
            *map(Cell, (item.passed, item.passed_errors, item.answered, item.errors)),
            Cell(item.errors / item.answered if item.answered else None),
        )
        for item in found
    )
    caption = "If it answers only the samples it is most confident about, and passes the rest to a human."
    return Table("abstaining", "What abstaining would save", caption, columns, rows)


def class_table(found: Classified, classes: Sequence[str]) -> Table:
    """List how well each class is recognised, and whether the confidence in it is right; the worst first."""
    numbers = sorted((one for one in found.by_class() if one.samples), key=lambda one: one.f1)
    left_out = len(numbers) - MOST_CLASSES
    columns = [Column("Class"), Column("Samples"), Column("F1", "↑", 3), Column("Found", "↑", 3)]
    columns += [Column("Right when said", "↑", 3), Column("Confidence when said", digits=3), Column("Gap", digits=3)]
    rows = [
        (
            Cell(classes[one.label]),
            Cell(one.samples),
            *(Cell(value if math.isfinite(value) else None) for value in (one.f1, one.recall, one.precision)),
            *(Cell(value if math.isfinite(value) else None) for value in (one.confidence, one.gap)),
        )
        for one in numbers[:MOST_CLASSES]
    ]
    caption = (
        "Found: the share of the class that is recognised. Right when said: the share of predictions of it that are "
        "right. Gap: confidence minus that share; above 0 it is over-confident. The worst F1 first."
        + (f" {left_out} more classes have a higher F1." if left_out > 0 else "")
    )
    return Table("classes", "Class by class", caption, tuple(columns), mark_best(columns, rows))


def _segments(found: Classified, classes: Sequence[str], samples: TestSamples | None) -> list[Segment]:
    labels = ((label, found.targets == label) for label in range(len(classes)))
    by_class = [found.segment(f"class {classes[one]}", rows) for one, rows in labels if rows.sum() >= FEWEST]
    numbers = samples.numbers() if samples else {}
    return [*by_class, *(item for name, values in numbers.items() for item in found.segments(name, values))]


def segment_table(segments: Sequence[Segment], overall: float, error: str = "Error") -> Table | None:
    """List the segments with the most errors; None if none has more than all samples together."""
    weak = sorted((one for one in segments if one.error > overall), key=lambda one: -one.error)
    if not weak:
        return None
    worst = weak[:MOST_SEGMENTS]
    digits = digits_for([one.error for one in worst] + [overall])
    columns = [Column("Segment"), Column("Samples"), Column(error, "↓", digits), Column("Times the whole", digits=2)]
    known = worst[0].confidence is not None
    columns += [Column("Confidence", digits=3), Column("Gap", digits=3)] if known else []
    rows = [
        (
            *(Cell(one.name), Cell(one.samples), Cell(one.error), Cell(one.error / overall if overall else None)),
            *((Cell(one.confidence), Cell(one.confidence - 1 + one.error)) if one.confidence is not None else ()),
        )
        for one in worst
    ]
    gap = " Gap: confidence minus the share of right answers; above 0 it is over-confident." if known else ""
    cut = f"Segments: {'classes, and ' if known else ''}quarters of the test samples in the order of one number"
    caption = (
        f"{_chosen_text(len(worst), len(weak), len(segments))}. {cut}.{gap} The worst of many segments looks bad by "
        "luck alone, too: check it on other data."
    )
    return Table("segments", "Where is it weak?", caption, tuple(columns), tuple(rows))


def _chosen_text(shown: int, weak: int, total: int) -> str:
    """Say which segments a table lists: all that are worse than the whole, or the worst of these."""
    segments = count(total, "segment")
    return f"The worst {shown} of {segments}" if shown < weak else f"Worse than the whole: {shown} of {segments}"


def _regressed(
    split: SplitPredictions,
    exits: int,
    samples: TestSamples | None,
    which: str,
    target: str | None,
    missing: Note | None,
) -> tuple[str, list["Part | None"]]:
    values = split.readings[exits].astype(np.float64)
    found = Regressed(values[:, 0], np.sqrt(values[:, 1]), split.targets.astype(np.float64))
    unit = f", {target}" if target else ""
    far = float((np.abs(found.surprise) > 2).mean())
    intro = (
        f"{which} on the test split of {len(found.mean):,} samples. {percent(far, 1)} of the residuals are larger than "
        "two predicted standard deviations; about 5 % should be."
    )
    numbers = samples.numbers() if samples else {}
    segments = [item for name, each in numbers.items() for item in found.segments(name, each)]
    segments += found.segments("predicted spread", found.spread)
    squared = float((found.residuals**2).mean())
    return intro, [
        missing,
        residual_figure(found, name="residuals", title="Residuals and predicted spread", unit=unit),
        _residual_table(found, samples),
        segment_table(segments, squared, "Mean squared error"),
    ]


def _residual_table(found: Regressed, samples: TestSamples | None) -> Table:
    deviating = samples is not None and samples.are_rows
    digits = digits_for(found.targets.tolist())
    columns = [Column("Test sample"), *(Column(name, digits=digits) for name in ("True", "Predicted", "Spread"))]
    columns += [Column("Residual in spreads", digits=1), *([Column("Most unusual columns")] if deviating else [])]
    rows = [
        (
            Cell(f"{index:,}"),
            *(Cell(float(each[index])) for each in (found.targets, found.mean, found.spread, found.surprise)),
            *([Cell(samples.deviations(index))] if samples is not None and deviating else []),
        )
        for index in found.largest(MOST_SAMPLES).tolist()
    ]
    more = " σ: standard deviations from the mean of the training rows." if deviating else ""
    caption = f"Samples farthest from their prediction, in predicted standard deviations, counted from 0.{more}"
    return Table("surprises", "Largest surprises", caption, tuple(columns), tuple(rows))
