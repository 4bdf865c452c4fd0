"""What a report is made of, whoever draws it: figures, tables and notes in sections, and what comes first."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import altair as alt

from sae.core.table import Table

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
