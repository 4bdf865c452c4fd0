"""Tables of several targets of one network: how well each is predicted, in its own units."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sae.core.objectives import TaskName
from sae.core.table import Cell, Column, Table
from sae.records.predictions import Numbers

CAPTION = "Each target on the test split, in the order of the data."


def target_table(task: TaskName, numbers: Numbers, targets: NDArray[np.number], names: Sequence[str]) -> Table:
    """Measure each of several targets alone.

    Args:
        task: Decides what the numbers mean.
        numbers: Predictions, (sample, target, number).
        targets: Labels or values, (sample, target).
        names: Names of the targets.
    """
    measure, columns = (_label_cells, LABEL_COLUMNS) if task == "classification" else (_value_cells, VALUE_COLUMNS)
    rows = tuple(
        (Cell(name), *map(Cell, measure(numbers[:, index], targets[:, index]))) for index, name in enumerate(names)
    )
    return Table("targets", "Target by target", CAPTION, columns, rows)


LABEL_COLUMNS = (
    Column("Label"),
    Column("Share that hold", digits=3),
    Column("Accuracy", "↑", 3),
    Column("Recall", "↑", 3),
    Column("Precision", "↑", 3),
    Column("NLL", "↓", 4),
)
VALUE_COLUMNS = (Column("Target"), Column("RMSE", "↓", 4), Column("R²", "↑", 3), Column("In 90 % intervals", digits=3))
NORMAL_90 = 1.6449
"""Standard deviations within which 90 % of a normal distribution lie."""


def _label_cells(log_probs: Numbers, labels: NDArray[np.number]) -> list[float | None]:
    said, true = log_probs.argmax(axis=1) == 1, labels == 1
    hits = float((said & true).sum())
    nll = -log_probs[np.arange(len(labels)), labels.astype(np.int64)].mean()
    recall, precision = (hits / float(total) if total else None for total in (true.sum(), said.sum()))
    return [float(true.mean()), float((said == true).mean()), recall, precision, float(nll)]


def _value_cells(numbers: Numbers, values: NDArray[np.number]) -> list[float | None]:
    errors = values - numbers[:, 0]
    mse, spread = float(np.square(errors).mean()), float(values.astype(np.float64).var())
    inside = np.abs(errors) <= NORMAL_90 * np.sqrt(numbers[:, 1])
    return [mse**0.5, 1 - mse / spread if spread else None, float(inside.mean())]
