"""Predictions of many samples: one CSV row for each, and a summary. No torch."""

import csv
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import ConfigError, DataWarning
from sae.core.table import spreadsheet_text
from sae.core.wording import count
from sae.data.images import is_image
from sae.deploy.conformal import are_all
from sae.deploy.rows import Flags
from sae.deploy.runtime import ClassPrediction, LabelPrediction, Model, Prediction, ValuePrediction
from sae.deploy.sources import Chunk
from sae.records.targets import check_target, write_target

Columns = dict[str, NDArray[np.generic]]
"""Columns of the CSV file by title, (sample,) each."""

SEPARATOR = "|"
"""Separates the classes of a set."""
SUMMED = ("correct", "all_correct", "abstain", "in_set", "set_size", "in_interval", "imputed", "unseen")
"""Columns that are summed over all samples."""
MEANS = {
    "correct": "accuracy",
    "all_correct": "all_labels_correct",
    "squared_error": "mse",
    "in_set": "coverage",
    "in_interval": "coverage",
    "set_size": "mean_set_size",
    "width": "mean_width",
    "flops": "mean_flops",
}
"""Titles of the means in the summary, by the name of the sum."""


def predict_to_file(
    model: Model,
    chunks: Iterable[Chunk],
    out: Path,
    abstain: float | None = None,
    coverage: float | None = None,
    timeout: float | None = None,
    inputs: Sequence[Path] = (),
) -> dict[str, int | float]:
    """Predict samples, write a CSV row for each, and return a summary.

    Where a model returns numbers that are not finite, the class or value is left empty, and counts as wrong.

    Args:
        model: The model.
        chunks: Samples, and their truth if it is known.
        out: The CSV file; written completely or not at all.
        abstain: Mark samples whose top probability is below this.
        coverage: Add a conformal set or interval that contains the truth with this probability.
        timeout: Stop after this many seconds.
        inputs: Files and folders that are read, and must not be replaced.

    Returns:
        `samples`, and where they apply `unusable`, `accuracy` or `mse`, `abstained`, `accuracy_kept`, `coverage`,
        `mean_set_size` or `mean_width`, the numbers of rows that are `imputed` or `unseen`, and with adaptive exits
        `mean_flops`, a share of the plain graph's.
    """
    check_options(model, abstain, coverage)
    if is_image(out.name):
        raise ConfigError(f"--out is a CSV file and must not have the name of an image, got {out}: name it e.g. p.csv")
    check_target(out, inputs=inputs)
    tally = _Tally(model)

    def write(temporary: Path) -> None:
        # Names of files need not be UTF-8.
        with temporary.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file:
            writer = csv.writer(file)
            has_header = False
            for chunk in chunks:
                prediction = model.predict(chunk.samples)
                columns = _columns(model, chunk, prediction, abstain, coverage)
                tally.add(chunk, columns, prediction)
                if not has_header:
                    writer.writerow(map(spreadsheet_text, columns))
                    has_header = True
                writer.writerows(zip(*(_cells(values) for values in _as_written(columns).values()), strict=True))

    with model.limited(timeout):
        write_target(out, write)
    tally.warn()
    return tally.summary()


def check_options(model: Model, abstain: float | None, coverage: float | None) -> None:
    """Refuse options that the model cannot satisfy, before any work starts."""
    if abstain is not None:
        if model.manifest.target.class_names is None:
            raise ConfigError(
                "--abstain is the probability of a class, but this model predicts values or several labels: use "
                "--coverage for values, and pass on samples whose interval is too wide for you"
            )
        if not 0 < abstain <= 1:
            raise ConfigError(f"--abstain must be a probability above 0, got {abstain}")
    if coverage is not None:
        model.threshold(coverage)


def six_digits(values: NDArray[np.generic], unit: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return numbers with six digits of a unit each, which changes none by more than 1e-5 of it.

    Example:
        >>> six_digits(np.array([0.123456789, 1700000123.456789]), np.array([0.123, 2.5])).tolist()
        [0.123457, 1700000123.45679]
    """
    exact = values.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        factor = 10.0 ** (5 - np.floor(np.log10(np.abs(unit.astype(np.float64)))))
        rounded: NDArray[np.float64] = np.round(exact * factor) / factor
    return np.where(np.isfinite(rounded), rounded, exact)


def _as_written(columns: Columns) -> Columns:
    """Return the columns with six digits: of values and ends of intervals as many as their deviation needs."""
    written = dict(columns)
    for name, values in columns.items():
        title, _, target = name.partition("_")
        if values.dtype.kind == "f" and title != "true":
            spread = columns.get(f"std_{target}" if target else "std") if title in ("mean", "lower", "upper") else None
            written[name] = six_digits(values, values if spread is None else spread)
    return written


def _cells(values: NDArray[np.generic]) -> Iterator[object]:
    """Yield the cells of a column: numbers in their shortest exact form, booleans as true and false, no formulas.

    Numbers that are not finite are empty.
    """
    is_number = np.issubdtype(values.dtype, np.floating)
    if is_number and not np.isfinite(values).all():
        values = np.where(np.isfinite(values), values.astype(object), "")
    for value in values.tolist():
        if isinstance(value, str):
            yield spreadsheet_text(value)
        else:
            yield str(value).lower() if isinstance(value, bool) else value


def _columns(
    model: Model, chunk: Chunk, prediction: Prediction, abstain: float | None, coverage: float | None
) -> Columns:
    names: Columns = {"sample": _texts(chunk.names), **chunk.kept}
    flags: Columns = {title: flags for title, flags in _flags(chunk).items() if flags.any()}
    if isinstance(prediction, ClassPrediction):
        own = _class_columns(model, chunk, prediction, abstain, coverage)
    elif isinstance(prediction, LabelPrediction):
        own = _label_columns(chunk, prediction)
    else:
        own = _value_columns(model, chunk, prediction, coverage)
    own |= flags
    if prediction.unusual is not None:
        own["unusual"] = prediction.unusual
    doubled = [name for name in chunk.kept if name in own or name == "sample"]
    if doubled:
        raise ConfigError(
            f"--keep must not name a column of the predictions, got {doubled[0]!r}: rename it in the table"
        )
    return names | own


def _flags(chunk: Chunk) -> dict[str, Flags]:
    """Return flags for rows of a table with newly missing values, and with unseen categories."""
    given = {"imputed": chunk.imputed, "unseen": chunk.unseen}
    return {title: flags for title, flags in given.items() if flags is not None}


def _class_columns(
    model: Model, chunk: Chunk, prediction: ClassPrediction, abstain: float | None, coverage: float | None
) -> Columns:
    names = _texts([*prediction.class_names, ""])  # the last one is that of NO_CLASS
    columns: Columns = {"class": names[prediction.labels], "label": prediction.labels}
    columns |= {"confidence": prediction.confidence, "entropy": prediction.entropy}
    columns["disagreement"] = prediction.disagreement
    if prediction.exits is not None:
        columns["exit"] = prediction.exits
    if abstain is not None:
        columns["abstain"] = prediction.abstains(abstain)
    if coverage is not None:
        sets = model.sets(prediction, coverage)
        columns["set"] = _texts([SEPARATOR.join(names[:-1][row]) for row in sets])
        columns["set_size"] = sets.sum(axis=1)
    if chunk.targets is not None:
        labels = chunk.targets.astype(np.int64)
        columns["true_class"] = names[labels]
        columns["correct"] = prediction.labels == labels
        if coverage is not None:
            columns["in_set"] = sets[np.arange(len(sets)), labels]
    return columns | {f"p_{name}": prediction.probs[:, index] for index, name in enumerate(prediction.class_names)}


def _label_columns(chunk: Chunk, prediction: LabelPrediction) -> Columns:
    """Return whether each label holds, its probability, and, if known, the truth and whether each is right."""
    given: Columns = {"label": prediction.labels, "p": prediction.probs}
    if chunk.targets is not None:
        given["true"] = chunk.targets
    columns = _named(given, prediction.names)
    columns |= {"entropy": prediction.entropy, "disagreement": prediction.disagreement}
    if chunk.targets is not None:
        columns["all_correct"] = are_all(np.asarray(prediction.labels == chunk.targets))
    return columns


def _named(given: Mapping[str, NDArray[np.generic]], names: Sequence[str]) -> Columns:
    """Return a column for each target and each of some values, (row, target), such as `mean_height`."""
    return {f"{title}_{name}": values[:, i] for i, name in enumerate(names) for title, values in given.items()}


def _values_columns(model: Model, chunk: Chunk, prediction: ValuePrediction, coverage: float | None) -> Columns:
    """Return the columns of several values, each called after its target."""
    given: Columns = {"mean": prediction.mean, "std": prediction.std}
    if coverage is not None:
        lower, upper = model.intervals(prediction, coverage)
        given |= {"lower": lower, "upper": upper}
    if chunk.targets is not None:
        given["true"] = chunk.targets
    columns = _named(given, model.manifest.target.names or ())
    columns |= {"entropy": prediction.entropy, "disagreement": prediction.disagreement}
    if chunk.targets is not None and coverage is not None:
        columns["in_interval"] = are_all(np.asarray((lower <= chunk.targets) & (chunk.targets <= upper)))
    return columns


def _value_columns(model: Model, chunk: Chunk, prediction: ValuePrediction, coverage: float | None) -> Columns:
    if model.manifest.target.names is not None:
        return _values_columns(model, chunk, prediction, coverage)
    columns: Columns = {"mean": prediction.mean, "std": prediction.std}
    columns |= {"entropy": prediction.entropy, "disagreement": prediction.disagreement}
    if coverage is not None:
        lower, upper = model.intervals(prediction, coverage)
        columns |= {"lower": lower, "upper": upper}
    if chunk.targets is not None:
        columns["true_value"] = chunk.targets
        if coverage is not None:
            columns["in_interval"] = (lower <= chunk.targets) & (chunk.targets <= upper)
    return columns


def _texts(values: Sequence[str]) -> NDArray[np.object_]:
    """Return texts as an array of objects, (value,)."""
    texts = np.empty(len(values), object)
    texts[:] = values
    return texts


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=4)


class _Tally:
    """Running sums over chunks."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.samples = self.unusable = 0
        self.first_unusable = ""
        self.unusual: Counter[str] = Counter()
        self.sums: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        """How many finite numbers each sum has."""

    def add(self, chunk: Chunk, columns: Mapping[str, NDArray[np.generic]], prediction: Prediction) -> None:
        usable = prediction.usable
        if not usable.all():
            self.first_unusable = self.first_unusable or chunk.names[int(usable.argmin())]
            self.unusable += int((~usable).sum())
        self.samples += len(prediction)
        if prediction.unusual is not None:
            self.unusual.update(prediction.unusual[prediction.unusual != ""].tolist())
        numbers = {key: values.astype(np.float64) for key, values in columns.items() if values.dtype != object}
        summed = {key: values for key, values in numbers.items() if key in SUMMED}
        if "abstain" in numbers and "correct" in numbers:
            summed["correct_kept"] = numbers["correct"] * (1 - numbers["abstain"])
        if "lower" in numbers:
            summed["width"] = numbers["upper"] - numbers["lower"]
        if "true_value" in numbers:
            with np.errstate(over="ignore"):  # a square that is not finite is in no mean
                summed["squared_error"] = np.square(numbers["mean"] - numbers["true_value"])
        if "exit" in numbers:
            summed["flops"] = np.full(len(prediction), self.model.mean_flops(prediction))
        for key, values in summed.items():
            finite = values[np.isfinite(values)]
            self.sums[key] = self.sums.get(key, 0.0) + float(finite.sum())
            self.counts[key] = self.counts.get(key, 0) + len(finite)

    def warn(self) -> None:
        """Say how many samples are unlike those of training, and how many have no prediction."""
        profile = self.model.manifest.profile
        if self.unusual and profile is not None:
            (name, number), more = self.unusual.most_common(1)[0], len(self.unusual) - 1
            others = f" in {number:,}, and {count(more, 'other reason')}" if more else ""
            _warn(
                f"{self.unusual.total():,} of {self.samples:,} rows are unusual: {profile.told(name)}{others}; the "
                f"column 'unusual' names them"
            )
        if self.unusable:
            _warn(
                f"{self.unusable:,} of {count(self.samples, 'sample')} cannot be predicted, such as "
                f"{self.first_unusable}: the model returns numbers that are not finite; their predictions are empty, "
                f"and count as wrong"
            )

    def summary(self) -> dict[str, int | float]:
        """Return means over samples. Means that are unknown, or over no samples, are left out."""
        summary: dict[str, int | float] = {"samples": self.samples}
        if "abstain" in self.sums:
            summary["abstained"] = int(self.sums["abstain"])
        summary |= {"unusual": self.unusual.total()} if self.unusual else {}
        summary |= {"unusable": self.unusable} if self.unusable else {}
        summary |= {key: int(self.sums[key]) for key in ("imputed", "unseen") if key in self.sums}
        summary |= {title: self.sums[key] / self.counts[key] for key, title in MEANS.items() if self.counts.get(key)}
        kept = self.samples - summary.get("abstained", 0)
        if "correct_kept" in self.sums and kept:
            summary["accuracy_kept"] = self.sums["correct_kept"] / kept
        return summary
