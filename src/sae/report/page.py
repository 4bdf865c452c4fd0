"""A report as one HTML file that needs nothing else: it opens from a disk, makes no requests, and can be printed."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TypeGuard

from sae.core.table import Cell, Column, Table, show
from sae.records.writing import write_whole
from sae.report.content import Chart, Command, Drawing, Figure, Lead, Note, Part, Report, Section, Term
from sae.report.figures.network import draw_on_page
from sae.report.figures.theme import ON_PAGE, Spec, SpecValue, chart_config, layers_of, on_page, palette_css, part_of
from sae.report.page_picker import render_picker
from sae.report.picker import Picker

BEFORE_PAINT = """(() => {
  const root = document.documentElement;
  root.classList.add("script");
  let kept = null;
  try { kept = localStorage.getItem("sae-theme"); } catch (error) { /* files may have no storage */ }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = kept || (dark ? "dark" : "light");
})();"""
"""Sets the theme before the page is shown."""
SCRIPTS = ("choose.js", "explore.js", "page.js")
GLOSSARY = "words"
"""Anchor of the glossary."""


def write_page(report: Report, path: Path) -> None:
    """Write the page of a report as a whole or not at all."""
    text = render_page(report)
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def render_page(report: Report) -> str:
    """Render a report as HTML, with everything it needs inside."""
    return Template(_asset("page.html")).substitute(
        title=escape(report.title),
        style=f"{palette_css()}\n{_asset('page.css')}",
        before=BEFORE_PAINT,
        facts="".join(f"<li>{escape(fact)}</li>" for fact in report.facts),
        lead=_render_lead(report.lead, has_glossary=bool(report.glossary)),
        words=_render_glossary(report.glossary),
        contents=_render_contents(report.sections),
        sections="\n".join(_render_section(section) for section in report.sections),
        figures=figure_data(report.figures(), report.pickers()),
        vega=_vega(),
        script="\n".join(_asset(name) for name in SCRIPTS),
    )


def _render_lead(lead: Lead, has_glossary: bool) -> str:
    reasons = "".join(f"<li>{prose(reason)}</li>" for reason in lead.reasons)
    parts = [
        f'<p class="sentence">{prose(lead.sentence)}</p>',
        '<div class="decide">',
        render_table(lead.receipt) if lead.receipt else "",
        render_picker(lead.picker) if lead.picker else "",
        "</div>",
        f'<ul class="reasons">{reasons}</ul>' if reasons else "",
        f'<p class="to-words"><a href="#{GLOSSARY}">Glossary</a></p>' if has_glossary else "",
        *(_render_command(command) for command in lead.commands),
    ]
    return "\n".join(part for part in parts if part)


def _render_glossary(terms: tuple[Term, ...]) -> str:
    """Render a folded list; a link to it opens it."""
    if not terms:
        return ""
    listed = "\n".join(f"<dt>{escape(term.name)}</dt><dd>{prose(term.meaning)}</dd>" for term in terms)
    return f"""<section class="words">
<details>
<summary>Glossary</summary>
<dl id="{GLOSSARY}">
{listed}
</dl>
</details>
</section>"""


def _render_command(command: Command) -> str:
    """Render a command in a box, without line breaks inside `--json` and the like."""
    words = re.sub(r"\S+", lambda word: f"<span>{escape(word[0])}</span>", command.line)
    return f"""<div class="command">
<p>{prose(command.purpose)}</p>
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


def _render_part(part: Part) -> str:
    match part:
        case Picker():
            return render_picker(part)
        case Drawing():
            return render_drawing(part)
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
    """Return the script that draws charts in a browser, as `window.vegaEmbed`."""
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


FIRST_ROWS = 15
"""Rows of a long table that are shown at first."""

WIDEST_LINE = 40
"""Characters of a text that is not wrapped."""

PHONE_COLUMNS, PHONE_CHARACTERS = 4, 80
"""Columns, and characters in each, that fit side by side on a phone."""

GLUED = (("± ", "±\u00a0"), (" ×", "\u00a0×"))
"""Replacements with spaces at which a line must not break."""

DIRECTIONS = {"↑": "higher is better", "↓": "lower is better"}


def render_table(table: Table) -> str:
    """Render a table, in a box that scrolls sideways if the table is wider than the page."""
    name, title = escape(table.name), escape(table.title)
    numeric = [table.is_numeric(index) for index in range(len(table.columns))]
    head = "".join(_heading(column, right) for column, right in zip(table.columns, numeric, strict=True))
    keys = table.keys or [""] * len(table.rows)
    body = "\n".join(_table_row(row, table.columns, numeric, key) for row, key in zip(table.rows, keys, strict=True))
    is_long = len(table.rows) > FIRST_ROWS
    kinds = [*(["long"] if is_long else []), *(["few"] if _fits_phone(table) else [])]
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


def _fits_phone(table: Table) -> bool:
    """Return whether a phone can show all columns at once, in small letters."""
    longest = max((len(show(cell, column)) for row in table.rows for cell, column in table.cells(row)), default=0)
    return len(table.columns) <= PHONE_COLUMNS and longest <= PHONE_CHARACTERS


def _heading(column: Column, numeric: bool) -> str:
    """Render a column title as a button that sorts, the best value first if there is a best."""
    first = "descending" if column.better == "↑" else "ascending"
    meaning = DIRECTIONS.get(column.better, "")
    better = f' <span class="better" title="{meaning}">{escape(column.better)}</span>' if column.better else ""
    button = f'<button type="button" data-first="{first}">{escape(column.title)}{better}</button>'
    return f'<th scope="col" aria-sort="none"{_alignment(numeric)}>{button}</th>'


def _table_row(row: tuple[Cell, ...], columns: tuple[Column, ...], numeric: list[bool], key: str) -> str:
    cells = "".join(_cell(cell, column, right) for cell, column, right in zip(row, columns, numeric, strict=True))
    about = f' data-key="{escape(key)}"' if key else ""
    return f"<tr{about}>{cells}</tr>"


def _cell(cell: Cell, column: Column, numeric: bool) -> str:
    """Render a value, with its full number to sort by."""
    text = escape(show(cell, column))
    for loose, glued in GLUED:
        text = text.replace(loose, glued)
    kind = ' class="long-text"' if len(text) > WIDEST_LINE else _alignment(numeric)
    content = f"<strong>{text}</strong>" if cell.strong else text
    return f"<td{kind}{_sort_key(cell)}><div>{content}</div></td>"


def _sort_key(cell: Cell) -> str:
    """Return the number to sort by: texts are sorted as texts, and missing values are always last."""
    if isinstance(cell.value, str):
        return ""
    if cell.value is None or math.isnan(cell.value):
        return ' data-missing=""'
    return f' data-value="{float(cell.value)!r}"'


def _alignment(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


PRINTED_COLUMNS = 2
SHAPES = {1: " single", 2: " even", 4: " even"}
"""Layout by number of panels, where there is room for three in a row."""
WITHOUT_SCRIPT = "This figure needs JavaScript. `sae report --figures` writes it as a file."


def render_figure(figure: Figure) -> str:
    """Render the title of a figure, an empty place for each panel, and its caption."""
    places = "\n".join(f'<div class="panel" data-panel="{index}"></div>' for index in range(len(figure.panels)))
    name, count = escape(figure.name), len(figure.panels)
    return f"""<figure class="charts" id="figure-{name}" data-figure="{name}">
{_figure_heading(figure.title)}
<noscript><p class="note">{prose(WITHOUT_SCRIPT)}</p></noscript>
<div class="panels{SHAPES.get(count, "")}" style="--columns: {min(count, PRINTED_COLUMNS)}">
{places}
</div>
<figcaption>{prose(figure.caption)}</figcaption>
</figure>"""


def render_drawing(drawing: Drawing) -> str:
    """Render a drawing of a network, which needs no script."""
    name = escape(drawing.name)
    return f"""<figure class="charts drawing" id="figure-{name}" data-drawing="{name}">
{_figure_heading(drawing.title)}
{draw_on_page(drawing.plan, ON_PAGE)}
<figcaption>{prose(drawing.caption)}</figcaption>
</figure>"""


def _figure_heading(title: str) -> str:
    """Render the title of a figure, and buttons that save it."""
    saves = "".join(
        f'<button type="button" class="save" data-format="{kind}" aria-label="Save this figure as {kind.upper()}">'
        f"{kind.upper()}</button>"
        for kind in ("svg", "png")
    )
    return f'<div class="heading"><h3>{escape(title)}</h3><div class="tools needs-script">{saves}</div></div>'


def prose(text: str) -> str:
    """Escape text for HTML; text between backticks becomes code.

    Example:
        >>> prose("a < b: run `sae pick`")
        'a &lt; b: run <code>sae pick</code>'
    """
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))


def figure_data(figures: Iterable[Figure], pickers: Iterable[Picker] = ()) -> str:
    """Return all charts, their theme and what can be chosen as JSON that is safe inside a script element."""
    below = chart_config(ON_PAGE, legend={"orient": "bottom", "direction": "horizontal"})
    config = {**below, "padding": {"left": 0, "right": 4, "top": 4, "bottom": 6}}
    texts = Texts()
    charts = {figure.name: [pack_spec(page_spec(panel), texts) for panel in figure.panels] for figure in figures}
    chosen = {item.name: {**item.to_json(), "packed": pack_rows(item.rows, texts)} for item in pickers}
    data = {"config": config, "texts": texts.listed(), "figures": charts, "pickers": chosen}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def page_spec(panel: Chart) -> dict[str, SpecValue]:
    """Return the specification of a panel in the colours of the page, as wide as its place."""
    spec = panel.to_dict()
    for unneeded in ("$schema", "config", "usermeta"):
        spec.pop(unneeded, None)
    width: Spec = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    return on_page({**_without_legend_places(spec), **width})


def _without_legend_places(spec: Spec) -> Spec:
    """Remove the places of legends: a page puts them below the plots, where they take no width."""
    return {key: item if key in ("data", "datasets") else _without_place(key, item) for key, item in spec.items()}


def _without_place(key: str, value: SpecValue) -> SpecValue:
    if isinstance(value, list):
        return [_without_place("", item) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept = _without_legend_places(value)
    return {inner: item for inner, item in kept.items() if inner != "orient"} if key == "legend" else kept


class Texts:
    """The texts of a page, each with a number.

    Example:
        >>> texts = Texts()
        >>> texts.number("a"), texts.number("b"), texts.number("a"), texts.listed()
        (0, 1, 0, ['a', 'b'])
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text, a new one for a new text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def listed(self) -> list[str]:
        """Return all texts in the order of their numbers."""
        return list(self._numbers)


def pack_spec(spec: Spec, texts: Texts) -> dict[str, SpecValue]:
    """Pack the rows of a chart's specification and of its layers."""
    packed = dict(spec)
    values = part_of(spec, "data").get("values")
    if values and _are_flat_rows(values):
        packed["data"] = {"packed": pack_rows(values, texts)}
    if "layer" in spec:
        packed["layer"] = [pack_spec(layer, texts) for layer in layers_of(spec)]
    return packed


def pack_rows(rows: Sequence[Spec], texts: Texts) -> dict[str, SpecValue]:
    """Pack rows as lists of cells: a text becomes a list with its number, a missing field an empty list.

    Example:
        >>> pack_rows([{"x": 1, "label": "a"}, {"x": 2}], Texts())
        {'fields': ['x', 'label'], 'rows': [[1, [0]], [2, []]]}
    """
    fields = list(dict.fromkeys(field for row in rows for field in row))
    return {"fields": fields, "rows": [[_packed_cell(row, field, texts) for field in fields] for row in rows]}


def _packed_cell(row: Spec, field: str, texts: Texts) -> SpecValue:
    if field not in row:
        return []
    value = row[field]
    return [texts.number(value)] if isinstance(value, str) else value


def _are_flat_rows(values: SpecValue) -> TypeGuard[list[Spec]]:
    """Return whether values are rows of numbers and texts only, without lists or mappings."""
    return isinstance(values, list) and all(
        isinstance(row, dict) and not any(isinstance(cell, list | dict) for cell in row.values()) for row in values
    )
