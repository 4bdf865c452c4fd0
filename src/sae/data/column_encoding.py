"""How a column of a table becomes features: learnt from training rows, kept with what is shipped."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ColumnEncoding:
    """One column.

    Attributes:
        name: Of the column.
        median: What stands for a missing number; None for a column of texts.
        categories: The texts that have a feature each; empty for a column of numbers.
        marks_missing: Whether a last feature says where a value is missing.
    """

    name: str
    median: float | None = None
    categories: tuple[str, ...] = ()
    marks_missing: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.median is not None

    @property
    def num_features(self) -> int:
        """Features that it becomes."""
        return (1 if self.is_numeric else len(self.categories)) + self.marks_missing

    def features(self, values: NDArray[Any], missing: NDArray[Any]) -> Iterator[NDArray[Any]]:
        """Its features, (row,) each: the number, or 1 at the text it is; another text is none of them.

        Example:
            >>> encoding = ColumnEncoding("colour", categories=("blue", "red"))
            >>> [feature.tolist() for feature in encoding.features(np.array(["red", "new"]), np.zeros(2, bool))]
            [[0.0, 0.0], [1.0, 0.0]]
        """
        if self.median is not None:
            yield np.where(missing, self.median, values)
        for category in self.categories:
            yield (values == category).astype(np.float64)
        if self.marks_missing:
            yield missing.astype(np.float64)
