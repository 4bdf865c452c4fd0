"""Content of a report, independent of how it is drawn: sections of figures, tables and notes, with a lead."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from sae.analysis.network_plan import NetworkPlan
from sae.core.table import Table

if TYPE_CHECKING:  # tables and leads are also for commands that do not draw
    import altair as alt

    from sae.report.picker import Picker

Chart: TypeAlias = "alt.Chart | alt.LayerChart"


@dataclass(frozen=True)
class Figure:
    """Panels that belong together: side by side in a file, below one another on a narrow page.

    Attributes:
        name: Name of its files and of its place on the page, `search-quality`.
        title: What it shows.
        caption: How to read it, in a sentence or two.
        panels: Single views; their marks do not depend on the width, so that a page may stretch them.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Chart, ...]


@dataclass(frozen=True)
class Drawing:
    """A drawing of a trained network.

    Attributes:
        name: Name of its files and of its place on the page.
        title: What it shows.
        caption: How to read it, in a sentence or two.
        plan: The network.
    """

    name: str
    title: str
    caption: str
    plan: NetworkPlan


@dataclass(frozen=True)
class Note:
    """A sentence for the reader: what is missing and how to get it, or what follows from the numbers."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A sample as a picture.

    Attributes:
        address: A data URI of a PNG.
        lines: What is written below it.
        is_wrong: Whether the network is wrong about it.
        number: Which sample it is.
    """

    address: str
    lines: tuple[str, ...]
    is_wrong: bool
    number: int


@dataclass(frozen=True)
class Gallery:
    """Small pictures of samples side by side.

    Attributes:
        name: Name of its place on the page.
        title: What it shows.
        caption: How to read it.
        pictures: From left to right.
    """

    name: str
    title: str
    caption: str
    pictures: tuple[Picture, ...]


Part: TypeAlias = "Figure | Drawing | Gallery | Table | Note | Lead"


@dataclass(frozen=True)
class Section:
    """Parts that answer one question.

    Attributes:
        name: Name of its place on the page.
        title: The question, or its topic.
        intro: A sentence or two about what follows.
        parts: In reading order.
        folded_under: Heading of the folded sections to which it belongs, until somebody opens it, or prints; empty for
            a section that is open.
    """

    name: str
    title: str
    intro: str
    parts: tuple["Part", ...]
    folded_under: str = ""


@dataclass(frozen=True)
class Command:
    """A command to type, with its purpose."""

    line: str
    purpose: str


@dataclass(frozen=True)
class Lead:
    """The top of the page, or of what it says about one of several studies.

    Attributes:
        sentence: The recommendation.
        reasons: Reasons for it and against it, a sentence each.
        receipt: Quality, calibration, cost and time of the pick and of what it is compared with.
        commands: What to type next.
        picker: Chooses within the reader's own limits.
        rules: How its numbers were made and compared, a sentence each; folded on the page.
    """

    sentence: str
    reasons: tuple[str, ...] = ()
    receipt: Table | None = None
    commands: tuple[Command, ...] = ()
    picker: "Picker | None" = None
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Term:
    """A glossary entry."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes:
        title: Title of the page.
        facts: Data, settings and dates, in short texts.
        lead: The top of the page.
        sections: The rest, in reading order.
        glossary: The terms that the report uses.
    """

    title: str
    facts: tuple[str, ...]
    lead: Lead
    sections: tuple[Section, ...]
    glossary: tuple[Term, ...] = ()

    def figures(self) -> Iterator[Figure]:
        """Yield all figures in reading order."""
        return (part for section in self.sections for part in section.parts if isinstance(part, Figure))

    def pickers(self) -> "Iterator[Picker]":
        """Yield what chooses among the candidates of each study."""
        return (lead.picker for lead in self.leads() if lead.picker)

    def drawings(self) -> Iterator[Drawing]:
        """Yield all drawings of networks in reading order."""
        return (part for section in self.sections for part in section.parts if isinstance(part, Drawing))

    def tables(self) -> Iterator[Table]:
        """Yield all tables in reading order, the receipt first."""
        parts = (self.lead, *(part for section in self.sections for part in section.parts))
        found = (part.receipt if isinstance(part, Lead) else part for part in parts)
        return (part for part in found if isinstance(part, Table))

    def leads(self) -> Iterator[Lead]:
        """Yield the lead of the page, then those of its studies where there are several."""
        yield self.lead
        yield from (part for section in self.sections for part in section.parts if isinstance(part, Lead))


def section(name: str, title: str, intro: str, *parts: "Part | None") -> Section:
    """Make a section of those parts that are not None."""
    return Section(name, title, intro, tuple(part for part in parts if part is not None))


def prefixed(one: Section, prefix: str) -> Section:
    """Put a prefix before the names and the title of a section, to tell it from others on the page."""
    parts = tuple(_prefixed_part(part, prefix) for part in one.parts)
    return replace(one, name=f"{prefix}-{one.name}", title=f"{prefix}: {one.title}", parts=parts)


def _prefixed_part(part: "Part", prefix: str) -> "Part":
    match part:
        case Note():
            return part
        case Lead():
            receipt = part.receipt and replace(part.receipt, name=f"{prefix}-{part.receipt.name}")
            picker = part.picker and replace(part.picker, name=f"{prefix}-{part.picker.name}")
            return replace(part, receipt=receipt, picker=picker)
        case _:
            return replace(part, name=f"{prefix}-{part.name}")


def with_data(one: Section, data: str) -> Section:
    """Name the data in the caption of each figure, which may be shown without its page."""
    parts = (
        replace(part, caption=f"{part.caption} Data: {data}.".lstrip()) if isinstance(part, Figure) else part
        for part in one.parts
    )
    return replace(one, parts=tuple(parts))
