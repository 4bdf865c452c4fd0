"""Tables for people: one type for every renderer (page, Markdown, LaTeX, CSV, terminal) and its number formats."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Arrow = Literal["", "↑", "↓"]
MISSING = "–"
"""Shown where there is no value."""
MOST_DIGITS = 6
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""Characters that start a formula in a spreadsheet."""
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        title: Heading.
        better: `↑` or `↓` where higher or lower numbers are better.
        digits: Decimals of its numbers; None for texts, and for counts, which get thousands separators.
    """

    title: str
    better: Arrow = ""
    digits: int | None = None

    @property
    def heading(self) -> str:
        """The title with its arrow, `F1 ↑`."""
        return f"{self.title} {self.better}".rstrip()


@dataclass(frozen=True)
class Cell:
    """One value of a table.

    Attributes:
        value: A number or a text; None where there is none.
        std: Standard deviation, if the value is a mean.
        strong: Whether to set it in bold, usually because it is the best of its column.
    """

    value: float | str | None
    std: float | None = None
    strong: bool = False


Row = tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A titled table.

    Attributes:
        name: Name of its files and of its place on the page.
        title: Heading above the table.
        caption: How to read it.
        columns: The columns from left to right.
        rows: One cell per column each.
        keys: The key of each row's network, by which a page links rows and marks; empty for other tables.
    """

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that every row has its key, if any has."""
        assert len(self.keys) in (0, len(self.rows)), f"{self.name}: {len(self.rows)} rows, {len(self.keys)} keys"

    def is_numeric(self, index: int) -> bool:
        """Return whether a column holds numbers and no text, and so is aligned to the right."""
        values = [row[index].value for row in self.rows]
        return any(value is not None for value in values) and not any(isinstance(value, str) for value in values)

    def cells(self, row: Row) -> Iterator[tuple[Cell, Column]]:
        """Pair the cells of a row with their columns."""
        return zip(row, self.columns, strict=True)


def text_table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Make a table of texts, for columns that mix number formats."""
    cells = tuple(tuple(Cell(text) for text in row) for row in rows)
    return Table("", title, "", tuple(Column(heading) for heading in headings), cells)


def show(cell: Cell, column: Column) -> str:
    """Write a cell for people, with the decimals of its column.

    Example:
        >>> show(Cell(0.8384, 0.0181), Column("F1", "↑", digits=3)), show(Cell(210944), Column("FLOPs"))
        ('0.838 ± 0.018', '210,944')
    """
    if cell.value is None:
        return MISSING
    if isinstance(cell.value, str):
        return cell.value
    text = _number(cell.value, column)
    return text if cell.std is None else f"{text} ± {_number(cell.std, column)}"


def mark_best(columns: Sequence[Column], rows: Sequence[Row]) -> tuple[Row, ...]:
    """Make the best number of each column with an arrow strong.

    Numbers that are written the same as the best are strong, too. A column with fewer than two numbers has no best.
    """
    best = [_best_text(column, [row[index] for row in rows]) for index, column in enumerate(columns)]
    return tuple(
        tuple(
            _with_strength(cell, text is not None and _mean_text(cell, column) == text)
            for cell, column, text in zip(row, columns, best, strict=True)
        )
        for row in rows
    )


def _with_strength(cell: Cell, strong: bool) -> Cell:
    """Return a cell that is strong or not; most are as they should be, and a copy is slow."""
    return cell if cell.strong == strong else replace(cell, strong=strong)


def digits_for(values: Iterable[float]) -> int:
    """Return the decimals that show three digits of the largest value; three if the largest is 1.

    Example:
        >>> digits_for([1.0, 0.02]), digits_for([12.5]), digits_for([3200.0])
        (3, 1, 0)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return 3 if largest == 1 else _digits(largest)


def digits_for_costs(values: Iterable[float]) -> int:
    """Return the decimals that show three digits of the smallest cost: costs differ by factors, and cheap ones matter.

    Example:
        >>> digits_for_costs([0.165, 7.4]), digits_for_costs([1200.0, 450.0])
        (3, 0)
    """
    least = min((abs(value) for value in values if value and math.isfinite(value)), default=0.0)
    return _digits(least)


def four_digits(value: float) -> str:
    """Write a number with four digits, and never with more than four decimals.

    Example:
        >>> four_digits(2943.127), four_digits(54.216), four_digits(-1.5), four_digits(0.0871)
        ('2,943', '54.22', '-1.500', '0.0871')
    """
    if not value or not math.isfinite(value):
        return f"{value:.4f}"
    decimals = 3 - math.floor(math.log10(abs(value)))
    return f"{value:,.{min(4, max(0, decimals))}f}"


def _digits(value: float) -> int:
    return min(MOST_DIGITS, max(0, 2 - math.floor(math.log10(value)))) if value else 3


def _number(value: float, column: Column) -> str:
    return f"{value:,.0f}" if column.digits is None else f"{value:.{column.digits}f}"


def _best_text(column: Column, cells: Iterable[Cell]) -> str | None:
    """Return the best number of a column as it is written, None if there is no best."""
    numbers = [cell for cell in cells if isinstance(cell.value, int | float)]
    if not column.better or len(numbers) < 2:
        return None
    choose = max if column.better == "↑" else min
    return _mean_text(choose(numbers, key=lambda cell: float(cell.value or 0.0)), column)


def _mean_text(cell: Cell, column: Column) -> str:
    return show(cell if cell.std is None else replace(cell, std=None), column)


def spreadsheet_text(text: str) -> str:
    """Quote a text that a spreadsheet would run as a formula; a number does not change.

    Example:
        >>> spreadsheet_text("=1+1"), spreadsheet_text("-2.5"), spreadsheet_text("cat")
        ("'=1+1", '-2.5', 'cat')
    """
    return f"'{text}" if text.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(text) else text


def markdown_text(text: str) -> str:
    r"""Escape a text for Markdown: one line, without borders of tables, lists, emphasis, code, links or HTML.

    Example:
        >>> print(markdown_text("a_b\n<img>"))
        a\_b \<img\>
    """
    escaped = re.sub(r"([\\|*_`#<>\[\]~])", r"\\\1", " ".join(text.split()))
    return re.sub(r"^(\d+(?=[.)](?: |$))|(?=[-+=](?![\d.])))", r"\1\\", escaped)
