"""What a report is made of, whoever draws it: figures, tables and notes in sections, and what comes first."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

Chart = alt.Chart | alt.LayerChart


@dataclass(frozen=True)
class Figure:
    """Panels that are looked at together: side by side in a file, below one another on a narrow page.

    Attributes:
        name: Of its files and of its place on the page, `search-quality`.
        title: What is shown.
        caption: How to read it, in a sentence or two.
        panels: Single views without a width that their marks depend on, so that a page may stretch them.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Chart, ...]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: What it holds.
        better: `↑` or `↓` where one direction is better.
        digits: Decimals of its numbers; None for texts and for counts, which are grouped by thousands.
    """

    title: str
    better: str = ""
    digits: int | None = None


@dataclass(frozen=True)
class Cell:
    """One value.

    Attributes:
        value: A number or a text; None where there is none.
        std: The standard deviation of a mean.
        strong: Whether it is the best of its column.
    """

    value: float | str | None
    std: float | None = None
    strong: bool = False


@dataclass(frozen=True)
class Table:
    """Rows that can be sorted by each column.

    Attributes:
        name: Of its files and of its place on the page.
        title: What is listed.
        caption: How to read it.
        columns: Left to right.
        rows: As many cells each as there are columns.
    """

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Note:
    """A sentence for whoever reads the page: what is missing and how to get it, or what follows from the numbers."""

    text: str


@dataclass(frozen=True)
class Section:
    """Parts about one question.

    Attributes:
        name: Of its place on the page.
        title: The question, or what answers it.
        intro: What it is about, a sentence or two.
        parts: In reading order.
    """

    name: str
    title: str
    intro: str
    parts: tuple["Figure | Table | Note", ...]


@dataclass(frozen=True)
class Lead:
    """What a person wants first.

    Attributes:
        sentence: The recommendation.
        reasons: Why, and what speaks against it, a sentence each.
        receipt: Quality, calibration, cost and time beside what it is compared with.
        commands: What to type next, each with what it does.
    """

    sentence: str
    reasons: tuple[str, ...] = ()
    receipt: Table | None = None
    commands: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Report:
    """All of a report.

    Attributes:
        title: What it is about.
        facts: Data, settings and dates in a line of short texts.
        lead: What comes first.
        sections: The rest.
        words: Those that it uses, each with its meaning.
    """

    title: str
    facts: tuple[str, ...]
    lead: Lead
    sections: tuple[Section, ...]
    words: tuple[tuple[str, str], ...] = ()

    def figures(self) -> Iterator[Figure]:
        """All figures in reading order."""
        return (part for section in self.sections for part in section.parts if isinstance(part, Figure))

    def tables(self) -> Iterator[Table]:
        """All tables in reading order, the receipt first."""
        if self.lead.receipt:
            yield self.lead.receipt
        yield from (part for section in self.sections for part in section.parts if isinstance(part, Table))


def section(name: str, title: str, intro: str, *parts: "Figure | Table | Note | None") -> Section:
    """A section of the parts that there are."""
    return Section(name, title, intro, tuple(part for part in parts if part is not None))


def prefixed(one: Section, prefix: str) -> Section:
    """The same section with names that differ from those of others on the page."""
    parts = tuple(part if isinstance(part, Note) else replace(part, name=f"{prefix}-{part.name}") for part in one.parts)
    return replace(one, name=f"{prefix}-{one.name}", title=f"{prefix}: {one.title}", parts=parts)


def show(cell: Cell, column: Column) -> str:
    """A cell as people read it.

    Example:
        >>> show(Cell(0.8384, 0.0181), Column("F1", "↑", digits=3)), show(Cell(210944), Column("FLOPs"))
        ('0.838 ± 0.018', '210,944')
    """
    if cell.value is None:
        return "–"
    if isinstance(cell.value, str):
        return cell.value
    text = _number(cell.value, column)
    return text if cell.std is None else f"{text} ± {_number(cell.std, column)}"


def _number(value: Any, column: Column) -> str:
    return f"{value:,.0f}" if column.digits is None else f"{value:.{column.digits}f}"
