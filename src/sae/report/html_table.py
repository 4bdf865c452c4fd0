"""Tables of a report as HTML; page.js sorts them and shortens the long ones."""

import math
from html import escape

from sae.core.table import Cell, Column, Table, show
from sae.report.html_text import prose

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
    body = "\n".join(_row(row, table.columns, numeric) for row in table.rows)
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


def _row(row: tuple[Cell, ...], columns: tuple[Column, ...], numeric: list[bool]) -> str:
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
