"""Predictions of many samples: a row for each, and what they come to."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sae.core.errors import ConfigError
from sae.deploy.runtime import ClassPrediction, Model, Prediction, ValuePrediction
from sae.deploy.sources import Chunk
from sae.records.folder import write_whole

Array = NDArray[Any]
SEPARATOR = "|"
"""Between the classes of a set."""


def predict_to_file(
    model: Model, chunks: Iterable[Chunk], out: Path, abstain: float | None = None, coverage: float | None = None
) -> dict[str, Any]:
    """Predict, write a row for each sample as CSV, and sum up.

    Args:
        model: What predicts.
        chunks: Samples, and their truth if it is known.
        out: The CSV file; written as a whole or not at all.
        abstain: Mark samples whose top probability is below this.
        coverage: Add a conformal set or interval that holds the truth with this probability.

    Returns:
        `samples`, and where it applies `accuracy` or `mse`, `abstained`, `accuracy_kept`,
        `coverage` and `size`, and of adaptive exits `mean_flops` as a share of the plain graph's.
    """
    check_options(model, abstain, coverage)
    tally = _Tally(model)

    def write(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = None
            for chunk in chunks:
                prediction = model.predict(chunk.samples)
                columns = _columns(model, chunk, prediction, abstain, coverage)
                tally.add(columns, prediction)
                writer = writer or _header(file, columns)
                writer.writerows(zip(*(_cells(values) for values in columns.values()), strict=True))

    write_whole(out, write)
    return tally.summary()


def check_options(model: Model, abstain: float | None, coverage: float | None) -> None:
    """Refuse what the model cannot do before any work starts."""
    if abstain is not None:
        if model.manifest.task == "regression":
            raise ConfigError(
                "--abstain is a probability of a class, however this model predicts values: "
                "use --coverage, and pass on samples whose interval is too wide for you"
            )
        if not 0 < abstain <= 1:
            raise ConfigError(f"--abstain must be a probability above 0, got {abstain}")
    if coverage is not None:
        model.threshold(coverage)


def _header(file: Any, columns: dict[str, Any]) -> Any:
    writer = csv.writer(file)
    writer.writerow(columns)
    return writer


def _cells(values: Any) -> Iterator[Any]:
    """Numbers as short as they can be read back, truth values as true and false."""
    for value in values.tolist() if isinstance(values, np.ndarray) else values:
        yield str(value).lower() if isinstance(value, bool) else value


def _columns(
    model: Model, chunk: Chunk, prediction: Prediction, abstain: float | None, coverage: float | None
) -> dict[str, Any]:
    told = {"sample": chunk.names}
    if isinstance(prediction, ClassPrediction):
        return told | _class_columns(model, chunk, prediction, abstain, coverage)
    return told | _value_columns(model, chunk, prediction, coverage)


def _class_columns(
    model: Model, chunk: Chunk, prediction: ClassPrediction, abstain: float | None, coverage: float | None
) -> dict[str, Any]:
    names = prediction.class_names
    columns: dict[str, Any] = {"class": prediction.names, "label": prediction.labels}
    columns |= {"confidence": prediction.confidence, "entropy": prediction.entropy}
    columns["disagreement"] = prediction.disagreement
    if prediction.exits is not None:
        columns["exit"] = prediction.exits
    if abstain is not None:
        columns["abstain"] = prediction.abstains(abstain)
    if coverage is not None:
        sets = model.sets(prediction, coverage)
        columns["set"] = [SEPARATOR.join(np.array(names)[row]) for row in sets]
        columns["set_size"] = sets.sum(axis=1)
    if chunk.targets is not None:
        columns["true_class"] = [names[label] for label in chunk.targets]
        columns["correct"] = prediction.labels == chunk.targets
        if coverage is not None:
            columns["in_set"] = sets[np.arange(len(sets)), chunk.targets]
    return columns | {f"p_{name}": prediction.probs[:, index] for index, name in enumerate(names)}


def _value_columns(model: Model, chunk: Chunk, prediction: ValuePrediction, coverage: float | None) -> dict[str, Any]:
    columns: dict[str, Any] = {"mean": prediction.mean, "std": prediction.std}
    columns |= {"entropy": prediction.entropy, "disagreement": prediction.disagreement}
    if coverage is not None:
        columns["lower"], columns["upper"] = model.intervals(prediction, coverage)
    if chunk.targets is not None:
        columns["true_value"] = chunk.targets
        if coverage is not None:
            columns["in_interval"] = (columns["lower"] <= chunk.targets) & (chunk.targets <= columns["upper"])
    return columns


class _Tally:
    """Running sums over chunks."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.samples = 0
        self.sums: dict[str, float] = {}

    def add(self, columns: dict[str, Any], prediction: Prediction) -> None:
        count = len(prediction)
        self.samples += count
        kept = ~columns["abstain"] if "abstain" in columns else np.ones(count, bool)
        found: dict[str, Array] = {
            key: columns[key] for key in ("correct", "abstain", "in_set", "set_size") if key in columns
        }
        if "abstain" in columns and "correct" in columns:
            found["correct_kept"] = columns["correct"] & kept
        if "lower" in columns:
            found["width"] = columns["upper"] - columns["lower"]
        if "in_interval" in columns:
            found["in_interval"] = columns["in_interval"]
        if "true_value" in columns:
            found["squared_error"] = np.square(columns["mean"].astype(np.float64) - columns["true_value"])
        if "exit" in columns:
            found["flops"] = np.array([self.model.mean_flops(prediction) * count])
        for key, values in found.items():
            self.sums[key] = self.sums.get(key, 0.0) + float(values.sum())

    def summary(self) -> dict[str, Any]:
        """Means over samples; what is not known, or of no samples, is left out."""
        summary: dict[str, Any] = {"samples": self.samples}
        if "abstain" in self.sums:
            summary["abstained"] = int(self.sums["abstain"])
        if not self.samples:
            return summary
        titles = {"correct": "accuracy", "squared_error": "mse", "in_set": "coverage", "in_interval": "coverage"}
        titles |= {"set_size": "mean_set_size", "width": "mean_width", "flops": "mean_flops"}
        summary |= {title: self.sums[key] / self.samples for key, title in titles.items() if key in self.sums}
        kept = self.samples - summary.get("abstained", 0)
        if "correct_kept" in self.sums and kept:
            summary["accuracy_kept"] = self.sums["correct_kept"] / kept
        return summary
