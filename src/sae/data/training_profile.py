"""The profile of training data: ranges and counts, what is wrong with them, and samples far outside of them.

It is made once, kept with the run and in the manifest of its model, and holds no row, identifier or text of the data.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from sae.core.wording import count
from sae.data.columns import ignoring
from sae.data.dataset import (
    DATE_FEATURES,
    Array,
    ColumnEncoding,
    Mask,
    SplitName,
)

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles that are kept."""
FAR = 10
"""A new value is far outside if it is this many times as far from the middle as any of training."""
FLATTENING = 1000
"""A column is flattened if a value is this many times as far from the middle as most."""
LEAST_SHARE = 0.01
"""Share of the rows that repeat others from which this is told."""
USUAL_YEARS = (1000, 3000)
"""Dates outside of these years usually stand for none."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Range(_Part):
    """The values of a column or channel.

    Attributes:
        low: The smallest.
        high: The largest.
        quantiles: Those at `SHARES`.
    """

    low: float
    high: float
    quantiles: tuple[float, ...]

    @property
    def bounds(self) -> tuple[float, float]:
        """The values beyond which a new one is far outside; of a constant, any other."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return (middle - FAR * half, middle + FAR * half) if half else (self.low, self.high)

    @property
    def is_flattened(self) -> bool:
        """Whether single values are so far away that all others look the same after standardisation."""
        lower, _, middle, _, upper = self.quantiles
        return 0 < upper - lower < max(self.high - middle, middle - self.low) / FLATTENING


class ColumnFacts(_Part):
    """A column of a table: `numbers` and `dates` (as days since 1970) have a range, `categories` have none."""

    name: str
    holds: Literal["numbers", "dates", "categories"]
    missing: float
    distinct: int
    range: Range | None

    @property
    def finding(self) -> str | None:
        """What is wrong with its values, if anything is."""
        if self.range is None:
            return None
        is_date = self.holds == "dates"
        low, high = (shown(value, is_date=is_date) for value in (self.range.low, self.range.high))
        if is_date:
            hint = "if one of them stands for no date, leave it empty"
            return f"{self.name!r} has dates from {low} to {high}: {hint}" if _is_no_date(self.range) else None
        if not self.range.is_flattened:
            return None
        most = " and ".join(shown(self.range.quantiles[index]) for index in (0, -1))
        return (
            f"{self.name!r} goes from {low} to {high}, but 90 % lie between {most}, and look alike to a network: "
            f"correct outliers"
        )


class DataProfile(_Part):
    """Facts about training data.

    Attributes:
        rows: Number of training samples.
        looked_at: Number of those that counts of repetitions refer to.
        columns: The columns of a table.
        channels: The channels of images or signals.
        constant: Share of the images or signals in which every channel has a single value.
        repeated: Training samples that repeat an earlier one.
        contradicted: Training samples whose inputs occur with another target, too.
        known: Samples of validation and of test whose inputs are also in training.
        compared: Samples of validation and of test that were compared.
        copies: Columns that are the target, or tell it one to one.
        absent: Classes without a sample in a split.
        alike: Classes whose names differ only in case, spaces or accents that are composed differently.
        passed_over: Files beside images that were not read, by suffix.
    """

    rows: int
    looked_at: int
    columns: tuple[ColumnFacts, ...] = ()
    channels: tuple[Range, ...] = ()
    constant: float = 0.0
    repeated: int = 0
    contradicted: int = 0
    known: dict[SplitName, int]
    compared: dict[SplitName, int]
    copies: tuple[str, ...] = ()
    absent: dict[SplitName, tuple[str, ...]] = {}
    alike: tuple[tuple[str, str], ...] = ()
    passed_over: dict[str, int] = {}

    def findings(self) -> list[str]:
        """Return what is wrong with the data in one line each, the worst first."""
        return [*self._leaks(), *self._class_findings(), *self._value_findings()]

    def _leaks(self) -> Iterator[str]:
        if self.copies:
            ignore = ignoring(list(self.copies))
            yield f"{_quoted(self.copies)} tells the target one to one: leave it out with {ignore} if it is known later"
        shares = {split: (number, self.compared[split]) for split, number in self.known.items() if number}
        known = [f"{n:,} of {of:,} {split}" for split, (n, of) in shares.items() if n >= LEAST_SHARE * of]
        if known:
            told = "results on these say little about new ones"
            yield f"{' and '.join(known)} samples have the inputs of a training sample: {told}"

    def _class_findings(self) -> Iterator[str]:
        for first, second in self.alike[:2]:
            yield f"classes {first!r} and {second!r} are almost one name, but are learnt as two: correct one of them"
        for split, names in self.absent.items():
            effect = "can never be predicted" if split == "train" else "count in none of its results"
            yield f"no {split} sample has class {_quoted(names)}, which {effect}"
        if self.passed_over:
            listed = ", ".join(f"{number:,} .{suffix}" for suffix, number in self.passed_over.items())
            yield f"files of other kinds were passed over: {listed}; convert them if they are samples"

    def _value_findings(self) -> Iterator[str]:
        if self.constant:
            yield f"{self.constant:.1%} of the training samples have a single value, such as black images"
        yield from (finding for column in self.columns if (finding := column.finding) is not None)
        if self.contradicted >= LEAST_SHARE * self.looked_at:
            yield f"{self.contradicted:,} of {self.looked_at:,} training samples have inputs with other targets, too"
        if self.repeated >= LEAST_SHARE * self.looked_at:
            yield f"{self.repeated:,} of {self.looked_at:,} training samples repeat the inputs of another"

    def unusual(self, samples: Array, encodings: Sequence[ColumnEncoding]) -> NDArray[np.object_]:
        """Return for each sample the first column or channel that is far outside of training; empty if none is.

        Args:
            samples: Raw samples, (batch, *sample).
            encodings: The encodings of a table's columns.
        """
        names, found = [""], np.zeros(len(samples), np.int64)
        for name, flags in self._far(samples, encodings):
            found[flags & (found == 0)] = len(names)
            names.append(name)
        titles = np.empty(len(names), object)
        titles[:] = names
        chosen: NDArray[np.object_] = titles[found]
        return chosen

    def _far(self, samples: Array, encodings: Sequence[ColumnEncoding]) -> Iterator[tuple[str, Mask]]:
        if samples.ndim == 2:
            places = number_places(encodings)
            for column in self.columns:
                if column.range is not None and column.name in places:
                    low, high = column.range.bounds
                    values = samples[:, places[column.name]]
                    yield column.name, (values < low) | (values > high)
            return
        inner = tuple(range(2, samples.ndim))
        lowest, highest = samples.min(axis=inner), samples.max(axis=inner)
        for index, channel in enumerate(self.channels):
            low, high = channel.bounds
            yield f"channel {index + 1}", (lowest[:, index] < low) | (highest[:, index] > high)
        if not self.constant:
            yield "constant", (lowest == highest).all(axis=1)

    def told(self, name: str) -> str:
        """Return what is unusual about a name of `unusual`: `'age' outside what training saw (18 to 90)`."""
        if name == "constant":
            return "a single value in the whole sample"
        ranges = {column.name: column.range for column in self.columns}
        found = ranges.get(name) or self.channels[int(name.split()[-1]) - 1]
        dates = {column.name for column in self.columns if column.holds == "dates"}
        low, high = (shown(value, is_date=name in dates) for value in (found.low, found.high))
        saw = f"{low} to {high}" if found.low < found.high else f"only {low}"
        return f"{name!r} outside what training saw ({saw})"


def parts_of(encodings: Sequence[ColumnEncoding]) -> Iterator[tuple[ColumnEncoding, slice]]:
    """Yield the features of each column."""
    start = 0
    for encoding in encodings:
        yield encoding, slice(start, start + encoding.num_features)
        start += encoding.num_features


def number_places(encodings: Sequence[ColumnEncoding]) -> dict[str, int]:
    """Return which feature holds the numbers of each column that has some: of a date, its days."""
    return {
        encoding.name: part.start + (DATE_FEATURES - 1 if encoding.is_date else 0)
        for encoding, part in parts_of(encodings)
        if encoding.is_numeric
    }


def _is_no_date(found: Range) -> bool:
    first, last = (np.datetime64(f"{year:04}", "D").astype(np.int64) for year in USUAL_YEARS)
    return bool(found.low < first or found.high >= last)


def shown(value: float, *, is_date: bool = False) -> str:
    """Format a number, or the date of some days since 1970.

    Example:
        >>> shown(9999.0), shown(0.5, is_date=True)
        ('9,999', '1970-01-01')
    """
    return str(np.datetime64(int(np.floor(value)), "D")) if is_date else f"{value:,.6g}"


def _quoted(names: Sequence[str], most: int = 3) -> str:
    more = f" and {count(len(names) - most, 'other')}" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
