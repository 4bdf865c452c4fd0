"""A report as one HTML file that needs nothing else: it opens from a disk, makes no requests, and can be printed."""

import itertools
import math
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from sae.core.table import Cell, Column, Table, show
from sae.records.writing import write_whole
from sae.report.content import (
    Command,
    Drawing,
    Figure,
    Gallery,
    Lead,
    Note,
    Part,
    Picture,
    Report,
    Section,
    Term,
)
from sae.report.figures.network import draw_on_page
from sae.report.figures.theme import ON_PAGE, palette_css
from sae.report.glossary import meaning_of
from sae.report.page_charts import figure_data
from sae.report.picker import render_picker
from sae.report.vega import vega_script

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
        notice=_asset("notice.txt").strip(),
        title=escape(report.title),
        style=f"{palette_css()}\n{_asset('page.css')}",
        before=BEFORE_PAINT,
        facts="".join(f"<li>{escape(fact)}</li>" for fact in report.facts),
        lead=_render_lead(report.lead, is_glossary_linked=bool(report.glossary)),
        words=_render_glossary(report.glossary),
        contents=_render_contents(report),
        sections=_render_sections(report.sections),
        figures=figure_data(report.figures(), report.pickers()),
        vega=vega_script(),
        script="\n".join(_asset(name) for name in SCRIPTS),
    )


def _render_lead(lead: Lead, is_glossary_linked: bool = False) -> str:
    reasons = "".join(f"<li>{prose(reason)}</li>" for reason in lead.reasons)
    parts = [
        f'<p class="sentence">{prose(lead.sentence)}</p>',
        '<div class="decide">',
        render_table(lead.receipt, is_whole=True) if lead.receipt else "",
        '<div class="beside">',
        render_picker(lead.picker) if lead.picker else "",
        f'<ul class="reasons">{reasons}</ul>' if reasons else "",
        _render_rules(lead.rules),
        "</div></div>",
        f'<p class="to-words"><a href="#{GLOSSARY}">Glossary</a></p>' if is_glossary_linked else "",
        *(_render_command(command) for command in lead.commands),
    ]
    return "\n".join(part for part in parts if part)


def _render_rules(rules: tuple[str, ...]) -> str:
    """Render how the lead's numbers were made, folded."""
    if not rules:
        return ""
    listed = "".join(f"<li>{prose(rule)}</li>" for rule in rules)
    return f"""<details class="rules">
<summary>How networks are compared</summary>
<ul class="reasons">{listed}</ul>
</details>"""


def _render_glossary(terms: tuple[Term, ...]) -> str:
    """Render a folded list; a link to it opens it."""
    if not terms:
        return ""
    listed = "\n".join(f"<div><dt>{escape(term.name)}</dt><dd>{prose(term.meaning)}</dd></div>" for term in terms)
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


def _render_contents(report: Report) -> str:
    shown = {
        _anchor(one.folded_under) if one.folded_under else one.name: one.folded_under or _question(one.title)
        for one in report.sections
    }
    first = "Recommendation" if report.lead.receipt else "Overview"
    links = (f'<li><a href="#{escape(name)}">{escape(title)}</a></li>' for name, title in shown.items())
    return f"""<nav aria-label="Contents">
<ul><li><a href="#lead">{first}</a></li>{"".join(links)}</ul>
</nav>"""


def _question(title: str) -> str:
    """Return the first half of a double question, so that the contents fit one line."""
    return f"{title.split(',')[0]}?" if title.endswith("?") and "," in title else title


def _render_sections(sections: tuple[Section, ...]) -> str:
    """Render sections; neighbours that are folded under one heading share a section."""
    rendered = []
    for heading, group in itertools.groupby(sections, key=lambda one: one.folded_under):
        if not heading:
            rendered += [_render_section(one) for one in group]
            continue
        folds = "\n".join(_render_fold(one) for one in group)
        rendered.append(f"""<section id="{_anchor(heading)}" class="researchers">
<h2>{escape(heading)}</h2>
<p class="intro on-screen">Open what you need; printing opens everything.</p>
{folds}
</section>""")
    return "\n".join(rendered)


def _anchor(heading: str) -> str:
    """Return the anchor of folded sections: `for-researchers`."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def _render_fold(section: Section) -> str:
    parts = "\n".join(_render_part(part) for part in section.parts)
    return f"""<details id="{escape(section.name)}">
<summary>{escape(section.title)}</summary>
<div class="fold">
{_render_intro(section)}
{parts}
</div>
</details>"""


def _render_section(section: Section) -> str:
    parts = "\n".join(_render_part(part) for part in section.parts)
    return f"""<section id="{escape(section.name)}">
<h2>{escape(section.title)}</h2>
{_render_intro(section)}
{parts}
</section>"""


def _render_intro(section: Section) -> str:
    return f'<p class="intro">{prose(section.intro)}</p>' if section.intro else ""


def _render_part(part: "Part") -> str:
    match part:
        case Lead():
            return _render_lead(part)
        case Drawing():
            return render_drawing(part)
        case Gallery():
            return render_gallery(part)
        case Figure():
            return render_figure(part)
        case Table():
            return render_table(part)
        case Note():
            return f'<p class="note">{prose(part.text)}</p>'


def _asset(name: str) -> str:
    return files("sae.report").joinpath(name).read_text(encoding="utf-8")


FIRST_ROWS = 10
"""Rows of a long table that are shown at first."""
WIDEST_LINE = 40
"""Characters of a text that is not wrapped."""
PHONE_COLUMNS, PHONE_CHARACTERS = 4, 80
"""Columns, and characters in each, that fit side by side on a phone."""
WIDE_COLUMNS = 10
"""Columns from which a table is printed in small letters."""
NARROW_CHARACTERS, CELL_SPACE = 76, 2
"""Characters of all columns that fit half a page, and those that the space between two columns takes."""
GLUED = (
    *(("± ", "±\u00a0"), (" ×", "\u00a0×"), (" %", "\u00a0%")),
    *((" ↑", "\u00a0↑"), (" ↓", "\u00a0↓"), ("SAE: ", "SAE:\u00a0")),
)
"""Replacements with spaces at which a line must not break."""

DIRECTIONS = {"↑": "higher is better", "↓": "lower is better"}


def render_table(table: Table, is_whole: bool = False) -> str:
    """Render a table, in a box that scrolls sideways if the table is wider than the page.

    Args:
        table: What to render.
        is_whole: Whether all rows are shown at first, however many there are.
    """
    name, title = escape(table.name), escape(table.title)
    numeric = [table.is_numeric(index) for index in range(len(table.columns))]
    head = "".join(_heading(column, right) for column, right in zip(table.columns, numeric, strict=True))
    keys = table.keys or [""] * len(table.rows)
    body = "\n".join(_table_row(row, table.columns, numeric, key) for row, key in zip(table.rows, keys, strict=True))
    is_long = len(table.rows) > FIRST_ROWS and not is_whole
    kinds = [*(["long"] if is_long else []), *(["few"] if _fits_phone(table) else [])]
    kinds += ["wide"] if len(table.columns) >= WIDE_COLUMNS else []
    more = f'<button type="button" class="more needs-script">Show all {len(table.rows)} rows</button>'
    half = " half" if _is_narrow(table) else ""
    return f"""<figure class="table{half}" id="table-{name}">
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


def _is_narrow(table: Table) -> bool:
    """Return whether half the width of a page is enough."""
    columns = enumerate(table.columns)
    texts = ([*column.heading.split(), *(show(row[index], column) for row in table.rows)] for index, column in columns)
    widths = itertools.accumulate(max(map(len, column), default=0) + CELL_SPACE for column in texts)
    return all(width <= NARROW_CHARACTERS for width in widths)  # the last columns of a wide table are not looked at


def _longest(table: Table) -> int:
    return max((len(show(cell, column)) for row in table.rows for cell, column in table.cells(row)), default=0)


def _fits_phone(table: Table) -> bool:
    """Return whether a phone can show all columns at once, in small letters."""
    return len(table.columns) <= PHONE_COLUMNS and _longest(table) <= PHONE_CHARACTERS


def _heading(column: Column, numeric: bool) -> str:
    """Render a column title as a button that sorts, the best value first if there is a best."""
    first = "descending" if column.better == "↑" else "ascending"
    meaning = DIRECTIONS.get(column.better, "")
    better = f'\u00a0<span class="better" title="{meaning}">{escape(column.better)}</span>' if column.better else ""
    about = " ".join(filter(None, [meaning_of(column.title), f"{meaning.capitalize()}." if meaning else ""]))
    helped = f' title="{escape(about)}"' if about else ""
    title = _glued(escape(column.title))
    button = f'<button type="button" data-first="{first}"{helped}>{title}{better}</button>'
    return f'<th scope="col" aria-sort="none"{_alignment(numeric)}>{button}</th>'


def _table_row(row: tuple[Cell, ...], columns: tuple[Column, ...], numeric: list[bool], key: str) -> str:
    cells = "".join(_cell(cell, column, right) for cell, column, right in zip(row, columns, numeric, strict=True))
    about = f' data-key="{escape(key)}"' if key else ""
    return f"<tr{about}>{cells}</tr>"


def _cell(cell: Cell, column: Column, numeric: bool) -> str:
    """Render a value, with its full number to sort by."""
    text = escape(show(cell, column))
    if not isinstance(cell.value, str):
        text = text.replace("-", "−")
    text = _glued(text)
    kind = ' class="long-text"' if len(text) > WIDEST_LINE else _alignment(numeric)
    content = f"<strong>{text}</strong>" if cell.strong else text
    return f"<td{kind}{_sort_key(cell)}><div>{content}</div></td>"


def _glued(text: str) -> str:
    """Keep lines from breaking between a number and its sign or unit."""
    for loose, glued in GLUED if " " in text else ():
        text = text.replace(loose, glued)
    return text


def _sort_key(cell: Cell) -> str:
    """Return the number to sort by: texts are sorted as texts, and missing values are always last."""
    if isinstance(cell.value, str):
        return ""
    if cell.value is None or math.isnan(cell.value):
        return ' data-missing=""'
    return f' data-value="{float(cell.value)!r}"'


def _alignment(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


SHORT_ROW = 6
"""Pictures for which a third of the width of a page is enough."""
NARROW_FIGURES = ("reliability",)
"""Figures without names beside their marks, pairs of panels of which fit half a page."""
ONE_ROW = (*NARROW_FIGURES, "corruptions")
"""Figures of which up to six panels stand side by side on a wide page."""
WIDE_FIGURES = ("parallel",)
"""Figures whose one panel needs the whole width of a page."""
PRINTED_COLUMNS = {1: 1, 2: 2, 4: 2}
"""Panels in a row on paper, by their number; else three."""
SHAPES = {1: " single", 2: " even", 4: " even"}
"""Layout by number of panels, where there is room for three in a row."""
WITHOUT_SCRIPT = "This figure needs JavaScript. `sae report --figures` writes it as a file."


def render_figure(figure: Figure) -> str:
    """Render the title of a figure, an empty place for each panel, and its caption."""
    places = "\n".join(f'<div class="panel" data-panel="{index}"></div>' for index in range(len(figure.panels)))
    name, count = escape(figure.name), len(figure.panels)
    is_wide = figure.name.endswith(WIDE_FIGURES)
    is_row = 4 <= count <= 6 and figure.name.endswith(ONE_ROW)
    is_half = (count == 1 and not is_wide) or (count == 2 and figure.name.endswith(NARROW_FIGURES))
    half, shape = " half" if is_half else "", " row" if is_row else "" if is_wide else SHAPES.get(count, "")
    columns = count if is_row else PRINTED_COLUMNS.get(count, 3)
    return f"""<figure class="charts{half}" id="figure-{name}" data-figure="{name}">
{_figure_heading(figure.title)}
<noscript><p class="note">{prose(WITHOUT_SCRIPT)}</p></noscript>
<div class="panels{shape}" style="--columns: {columns}">
{places}
</div>
<figcaption>{prose(figure.caption)}</figcaption>
</figure>"""


def render_drawing(drawing: Drawing) -> str:
    """Render a drawing of a network, which needs no script."""
    name = escape(drawing.name)
    return f"""<figure class="charts drawing half" id="figure-{name}" data-drawing="{name}">
{_figure_heading(drawing.title)}
{draw_on_page(drawing.plan, ON_PAGE)}
<figcaption>{prose(drawing.caption)}</figcaption>
</figure>"""


def render_gallery(gallery: Gallery) -> str:
    """Render pictures of samples in rows, enlarged without smoothing."""
    pictures = "\n".join(_picture(picture) for picture in gallery.pictures)
    name = escape(gallery.name)
    third = " third" if len(gallery.pictures) <= SHORT_ROW else ""
    return f"""<figure class="gallery{third}" id="gallery-{name}">
<h3>{escape(gallery.title)}</h3>
<ul>
{pictures}
</ul>
<figcaption>{prose(gallery.caption)}</figcaption>
</figure>"""


def _picture(picture: Picture) -> str:
    text = f"test sample {picture.number}: {', '.join(picture.lines)}"
    kind = ' class="wrong"' if picture.is_wrong else ""
    lines = "".join(f"<span>{escape(line)}</span>" for line in picture.lines)
    return f'<li{kind}><img src="{picture.address}" alt="{escape(text)}" title="{escape(text)}">{lines}</li>'


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
    marked = re.sub(r"`([^`\n]+)`", lambda found: f"<code>{_unbroken(found[1])}</code>", escape(text))
    return _glued(marked).replace("Darker", '<span class="light">Darker</span><span class="dark">Brighter</span>')


def _unbroken(code: str) -> str:
    """Keep a line from breaking within an option such as `--keep-predictions`."""
    return re.sub(r"--\w+(-\w+)+", r'<span class="option">\g<0></span>', code)
