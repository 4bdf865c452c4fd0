"""A report as one HTML file."""

import math
import re
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from sae.core.table import Cell, Column, Table, show
from sae.records.folder import write_whole
from sae.report.content import Figure, Lead, Note, Report, Section
from sae.report.figures.theme import palette_css
from sae.report.page_charts import figure_data

BEFORE_PAINT = """(() => {
  const root = document.documentElement;
  root.classList.add("script");
  let kept = null;
  try { kept = localStorage.getItem("sae-theme"); } catch (error) { /* files may have no storage */ }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = kept || (dark ? "dark" : "light");
})();"""
"""Chooses the theme before anything is seen."""
WORDS = "words"
"""Where the list of words is on the page."""


def write_page(report: Report, path: Path) -> None:
    """Write a report's page as a whole or not at all."""
    text = render_page(report)
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def render_page(report: Report) -> str:
    """A report as HTML, with all that it needs inside."""
    return Template(_asset("page.html")).substitute(
        title=escape(report.title),
        style=f"{palette_css()}\n{_asset('page.css')}",
        before=BEFORE_PAINT,
        facts="".join(f"<li>{escape(fact)}</li>" for fact in report.facts),
        lead=_render_lead(report.lead, has_words=bool(report.words)),
        words=_render_words(report.words),
        contents=_render_contents(report.sections),
        sections="\n".join(_render_section(section) for section in report.sections),
        figures=figure_data(report.figures()),
        vega=_vega(),
        script=_asset("page.js"),
    )


def _render_lead(lead: Lead, has_words: bool) -> str:
    reasons = "".join(f"<li>{prose(reason)}</li>" for reason in lead.reasons)
    parts = [
        f'<p class="sentence">{prose(lead.sentence)}</p>',
        f'<ul class="reasons">{reasons}</ul>' if reasons else "",
        f'<p class="to-words"><a href="#{WORDS}">Words on this page</a></p>' if has_words else "",
        render_table(lead.receipt) if lead.receipt else "",
        *(_render_command(command, purpose) for command, purpose in lead.commands),
    ]
    return "\n".join(part for part in parts if part)


def _render_words(words: tuple[tuple[str, str], ...]) -> str:
    """A list that is folded away; a link to what is inside opens it."""
    if not words:
        return ""
    listed = "\n".join(f"<dt>{escape(word)}</dt><dd>{prose(meaning)}</dd>" for word, meaning in words)
    return f"""<section class="words">
<details>
<summary>Words on this page</summary>
<dl id="{WORDS}">
{listed}
</dl>
</details>
</section>"""


def _render_command(command: str, purpose: str) -> str:
    """A command in a box; its words are kept whole, so that `--json` is not broken after a dash."""
    words = re.sub(r"\S+", lambda word: f"<span>{escape(word[0])}</span>", command)
    return f"""<div class="command">
<p>{prose(purpose)}</p>
<div class="box"><pre><code>{words}</code></pre>
<button type="button" class="copy needs-script">Copy</button></div>
</div>"""


def _render_contents(sections: tuple[Section, ...]) -> str:
    links = (f'<li><a href="#{escape(section.name)}">{escape(section.title)}</a></li>' for section in sections)
    return f"""<nav aria-label="Contents">
<ul><li><a href="#lead">Recommendation</a></li>{"".join(links)}</ul>
</nav>"""


def _render_section(section: Section) -> str:
    parts = "\n".join(_render_part(part) for part in section.parts)
    return f"""<section id="{escape(section.name)}">
<h2>{escape(section.title)}</h2>
<p class="intro">{prose(section.intro)}</p>
{parts}
</section>"""


def _render_part(part: Figure | Table | Note) -> str:
    match part:
        case Figure():
            return render_figure(part)
        case Table():
            return render_table(part)
        case Note():
            return f'<p class="note">{prose(part.text)}</p>'


def _asset(name: str) -> str:
    return files("sae.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _vega() -> str:
    """What draws charts in a browser; it leaves `vegaEmbed` in the window."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


LONGEST = 15
"""Rows that are shown at first."""

WIDEST = 40
"""Characters of a text that stays on one line."""

FEW, SHORT = 4, 80
"""Columns, and characters in each, that fit side by side on a phone."""

GLUED = (("± ", "±\u00a0"), (" ×", "\u00a0×"))
"""Where a line must not end, and what stands there in its place."""

DIRECTIONS = {"↑": "higher is better", "↓": "lower is better"}


def render_table(table: Table) -> str:
    """A table that scrolls sideways in its box where it is wider than the page."""
    name, title = escape(table.name), escape(table.title)
    numeric = [table.is_numeric(index) for index in range(len(table.columns))]
    head = "".join(_heading(column, right) for column, right in zip(table.columns, numeric, strict=True))
    body = "\n".join(_table_row(row, table.columns, numeric) for row in table.rows)
    is_long = len(table.rows) > LONGEST
    kinds = [*(["long"] if is_long else []), *(["few"] if _is_few(table) else [])]
    more = f'<button type="button" class="more needs-script">Show all {len(table.rows)} rows</button>'
    return f"""<figure class="table" id="table-{name}">
<h3 id="title-{name}">{title}</h3>
<div class="scroll" role="region" aria-labelledby="title-{name}" tabindex="0">
<table{f' class="{" ".join(kinds)}"' if kinds else ""}>
<thead><tr>{head}</tr></thead>
<tbody>
{body}
</tbody>
</table>
</div>
{more if is_long else ""}
<figcaption>{prose(table.caption)}</figcaption>
</figure>"""


def _is_few(table: Table) -> bool:
    """Whether all columns can be seen at once on a phone, in small letters."""
    longest = max((len(show(cell, column)) for row in table.rows for cell, column in table.cells(row)), default=0)
    return len(table.columns) <= FEW and longest <= SHORT


def _heading(column: Column, numeric: bool) -> str:
    """A column's title as a button that sorts, the best first where there is a better."""
    first = "descending" if column.better == "↑" else "ascending"
    meaning = DIRECTIONS.get(column.better, "")
    better = f' <span class="better" title="{meaning}">{escape(column.better)}</span>' if column.better else ""
    button = f'<button type="button" data-first="{first}">{escape(column.title)}{better}</button>'
    return f'<th scope="col" aria-sort="none"{_alignment(numeric)}>{button}</th>'


def _table_row(row: tuple[Cell, ...], columns: tuple[Column, ...], numeric: list[bool]) -> str:
    cells = "".join(_cell(cell, column, right) for cell, column, right in zip(row, columns, numeric, strict=True))
    return f"<tr>{cells}</tr>"


def _cell(cell: Cell, column: Column, numeric: bool) -> str:
    """A value as people read it, with its number in full to sort by."""
    text = escape(show(cell, column))
    for loose, glued in GLUED:
        text = text.replace(loose, glued)
    kind = ' class="long-text"' if len(text) > WIDEST else _alignment(numeric)
    content = f"<strong>{text}</strong>" if cell.strong else text
    return f"<td{kind}{_sort_key(cell)}><div>{content}</div></td>"


def _sort_key(cell: Cell) -> str:
    """Texts are sorted as they are read; what is missing stays last in either order."""
    if isinstance(cell.value, str):
        return ""
    if cell.value is None or math.isnan(cell.value):
        return ' data-missing=""'
    return f' data-value="{float(cell.value)!r}"'


def _alignment(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


PRINTED_COLUMNS = 2
SHAPES = {1: " single", 2: " even", 4: " even"}
"""How so many panels are set where there is room for three in a row."""
WITHOUT_SCRIPT = "This figure needs JavaScript; it is also a file of its own where the report was written."


def render_figure(figure: Figure) -> str:
    """A figure's title, an empty place for each panel, and its caption."""
    places = "\n".join(f'<div class="panel" data-panel="{index}"></div>' for index in range(len(figure.panels)))
    name, count = escape(figure.name), len(figure.panels)
    saves = "".join(
        f'<button type="button" class="save" data-format="{kind}" aria-label="Save this figure as {kind.upper()}">'
        f"{kind.upper()}</button>"
        for kind in ("svg", "png")
    )
    return f"""<figure class="charts" id="figure-{name}" data-figure="{name}">
<div class="heading"><h3>{escape(figure.title)}</h3><div class="tools needs-script">{saves}</div></div>
<noscript><p class="note">{WITHOUT_SCRIPT}</p></noscript>
<div class="panels{SHAPES.get(count, "")}" style="--columns: {min(count, PRINTED_COLUMNS)}">
{places}
</div>
<figcaption>{prose(figure.caption)}</figcaption>
</figure>"""


def prose(text: str) -> str:
    """Text as HTML; what is between backticks becomes code.

    Example:
        >>> prose("a < b: run `sae pick`")
        'a &lt; b: run <code>sae pick</code>'
    """
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))
