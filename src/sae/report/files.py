"""Figures as SVG and PNG files, and tables as Markdown, CSV and LaTeX files, for papers and slides.

The charts are the same as on the page, and are drawn without a browser.
"""

import csv
import io
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import altair as alt
import vl_convert
from PIL import Image

from sae.analysis.network_plan import NetworkPlan
from sae.config.methods import all_kinds
from sae.core.errors import RecordError
from sae.core.table import Cell, Column, Table, markdown_text, show, spreadsheet_text
from sae.records.targets import check_target, write_target
from sae.records.writing import write_whole
from sae.report.content import Drawing, Figure
from sae.report.figures.network import draw_file
from sae.report.figures.theme import ON_PAPER, Spec, SpecValue, chart_config, layers_of, part_of
from sae.report.labels import paper_shape_of

Style = Literal["screen", "paper"]
PANELS_PER_ROW = 3
FIGURE_FORMATS: tuple[Literal["svg", "png"], ...] = ("svg", "png")
PNG_SCALE = 2
PNG_COLOURS = 256
CAPTION_LINE = 65
"""Characters of a caption per panel in a row."""
SEVERAL_NUMBERS = re.compile(r"(-?[\d,]*\.?\d+)(?: ± ([\d,]*\.?\d+))?(?: \(([\d,]*\.?\d+) ×\))?")
"""A number as a text, with its deviation, or with how many times another number it is, or both."""
LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "′": "$'$",
    "α": r"$\alpha$",
    "ρ": r"$\rho$",
    "θ": r"$\theta$",
    "–": "--",
    "−": "$-$",
    "σ": r"$\sigma$",
    "²": "$^2$",
    "·": r"$\cdot$",
    "…": r"\dots{}",
}
"""Characters that LaTeX would not print as they are."""
CHART_PPI = 144
"""Dots per inch of charts that commands draw beside their tables."""


def write_figures(figures: Iterable[Figure], folder: Path, style: Style = "screen") -> list[Path]:
    """Write each figure as `<name>.svg` and `<name>.png`, and return the files.

    Args:
        figures: Figures to draw.
        folder: Created if it is missing.
        style: `paper` for the shapes of the paper, `screen` for shapes that can be told apart when they are small.
    """
    folder.mkdir(parents=True, exist_ok=True)
    styled = map(in_paper_style, figures) if style == "paper" else figures
    drawn = {figure.name: _svg_of(whole_figure(figure)) for figure in styled}
    paths = {folder / f"{name}.{kind}": svg for name, svg in drawn.items() for kind in FIGURE_FORMATS}
    for path in paths:
        check_target(path, "--figures")
    for path, svg in paths.items():
        _write_svg(svg, path)
    return list(paths)


def in_paper_style(figure: Figure) -> Figure:
    """Return a figure with the shapes of the paper for the kinds of methods."""
    panels = tuple(type(panel).from_dict(_with_paper_shapes(panel.to_dict())) for panel in figure.panels)
    return replace(figure, panels=panels)


def _with_paper_shapes(spec: Spec) -> dict[str, SpecValue]:
    """Replace the range of every scale of shapes that names kinds of methods."""
    shapes = {kind.label: paper_shape_of(kind) for kind in all_kinds().values()}
    found = dict(spec)
    shape = part_of(part_of(spec, "encoding"), "shape")
    domain = part_of(shape, "scale").get("domain")
    if isinstance(domain, list) and all(label in shapes for label in domain):
        scale = {**part_of(shape, "scale"), "range": [shapes[str(label)] for label in domain]}
        found["encoding"] = {**part_of(spec, "encoding"), "shape": {**shape, "scale": scale}}
    if "layer" in spec:
        found["layer"] = [_with_paper_shapes(layer) for layer in layers_of(spec)]
    return found


def write_figure(figure: Figure, path: Path, panels_per_row: int = PANELS_PER_ROW) -> None:
    """Draw a figure into a file, as SVG or, if it ends in .png, as PNG."""
    _write_svg(_svg_of(whole_figure(figure, panels_per_row)), path)


def save_chart(chart: alt.TopLevelMixin, path: Path) -> None:
    """Draw a chart as it is into a .png or .svg file."""
    kind: Literal["png", "svg"] = "png" if path.suffix == ".png" else "svg"
    write_whole(path, lambda temporary: chart.save(str(temporary), format=kind, ppi=CHART_PPI))


def write_drawings(drawings: Iterable[Drawing], folder: Path) -> list[Path]:
    """Write each drawing of a network as `<name>.svg` and `<name>.png` to a folder, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {folder / f"{drawing.name}.{kind}": drawing for drawing in drawings for kind in FIGURE_FORMATS}
    for path in paths:
        check_target(path, "--figures")
    for path, drawing in paths.items():
        write_drawing(drawing.plan, path)
    return list(paths)


def write_drawing(plan: NetworkPlan, path: Path) -> None:
    """Draw a network into a file, as SVG or, if it ends in .png, as PNG."""
    _write_svg(draw_file(plan), path)


def _svg_of(chart: alt.ConcatChart) -> str:
    """Draw a chart as SVG, which a PNG is made from, too: that takes half the time of drawing it twice."""
    content = io.StringIO()
    chart.save(content, format="svg")
    return content.getvalue()


def _write_svg(svg: str, path: Path) -> None:
    """Write a drawing as it is or, if the file ends in .png, as PNG."""
    if path.suffix == ".png":
        write_whole(path, partial(_save_small_png, vl_convert.svg_to_png(svg, scale=PNG_SCALE)))
    else:
        write_whole(path, partial(_write_text, svg))


def _save_small_png(content: bytes, path: Path) -> None:
    """Save with a palette of colours: no difference to the eye, and a file a fifth as large."""
    image = Image.open(io.BytesIO(content)).convert("RGB").quantize(PNG_COLOURS)
    image.save(path, format="png", optimize=True)


def whole_figure(figure: Figure, panels_per_row: int = PANELS_PER_ROW) -> alt.ConcatChart:
    """Join the panels of a figure in rows, with its title and caption above.

    Panels with the same scale of colours or shapes share a legend.
    """
    caption = textwrap.wrap(figure.caption, CAPTION_LINE * min(len(figure.panels), panels_per_row))
    title = alt.TitleParams(figure.title, subtitle=caption, anchor="start", fontSize=15, offset=14)
    config = {**chart_config(ON_PAPER), "padding": 16}
    chart = alt.concat(*figure.panels, columns=panels_per_row, spacing=32, title=title, config=config)
    shared: alt.ConcatChart = chart.resolve_scale(color=_resolve(figure, "color"), shape=_resolve(figure, "shape"))
    return shared


def _resolve(figure: Figure, channel: str) -> Literal["shared", "independent"]:
    """Share a scale if all panels name the same values in it, with the same domain and range."""
    encodings = [item for panel in figure.panels for item in _encodings(panel.to_dict(), channel)]
    scales = [part_of(item, "scale") for item in encodings]
    named = all(item["type"] == "nominal" for item in encodings) and all("domain" in scale for scale in scales)
    same = all(scale == scales[0] for scale in scales)
    return "shared" if scales and named and same else "independent"


def _encodings(spec: Spec, channel: str) -> Iterator[Spec]:
    """Yield the encodings of a channel in a view and its layers."""
    item = part_of(part_of(spec, "encoding"), channel)
    if "field" in item:
        yield item
    for layer in layers_of(spec):
        yield from _encodings(layer, channel)


def to_markdown(table: Table) -> str:
    """Write title, table and caption in GitHub's Markdown; the best numbers are bold."""
    heads = [markdown_text(column.heading) for column in table.columns]
    rules = ["--:" if table.is_numeric(index) else ":--" for index in range(len(table.columns))]
    rows = [[_bold(markdown_text(show(cell, column)), cell) for cell, column in table.cells(row)] for row in table.rows]
    lines = [f"| {' | '.join(line)} |" for line in (heads, rules, *rows)]
    return "\n".join([f"### {markdown_text(table.title)}", "", *lines, "", markdown_text(table.caption), ""])


def to_csv(table: Table) -> str:
    """Write plain numbers at full precision, with standard deviations in columns after their means.

    A text of a number with its deviation and multiple, as in a receipt, becomes a cell for each. Texts that a
    spreadsheet would run as a formula start with an apostrophe, which marks them as texts.
    """
    table = _split_texts(table)
    spread = [any(row[index].std is not None for row in table.rows) for index in range(len(table.columns))]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        _csv(title)
        for column, has_std in zip(table.columns, spread, strict=True)
        for title in (column.title, *([f"{column.title} std"] if has_std else []))
    )
    for row in table.rows:
        writer.writerow(
            _csv(value)
            for cell, has_std in zip(row, spread, strict=True)
            for value in (cell.value, *([cell.std] if has_std else []))
        )
    return file.getvalue()


def _split_texts(table: Table) -> Table:
    """Split texts such as `0.84 ± 0.02` and `5.843 (8.76 ×)` into numbers, and multiples into a column of their own."""
    columns: list[Column] = []
    cells: list[list[Cell]] = []
    for index, column in enumerate(table.columns):
        found = [_split_text(row[index]) for row in table.rows]
        columns.append(column)
        cells.append([cell for cell, _ in found])
        if any(multiple is not None for _, multiple in found):
            columns.append(Column(f"{column.title} multiple"))
            cells.append([Cell(multiple) for _, multiple in found])
    return replace(table, columns=tuple(columns), rows=tuple(zip(*cells, strict=True)))


def _split_text(cell: Cell) -> tuple[Cell, float | None]:
    """Return the number and deviation of a text, and its multiple; any other cell as it is."""
    found = SEVERAL_NUMBERS.fullmatch(cell.value) if isinstance(cell.value, str) else None
    if found is None or not (found[2] or found[3]):
        return cell, None
    value, std, multiple = (None if text is None else float(text.replace(",", "")) for text in found.groups())
    return Cell(value, std, cell.strong), multiple


def to_latex(table: Table) -> str:
    r"""Write a float for the packages booktabs and graphicx, for `\input`, with the label `tab:<name>`.

    A table that is wider than the text is made smaller to fit it.
    """
    alignment = "".join("r" if table.is_numeric(index) else "l" for index in range(len(table.columns)))
    heads = [_latex(column.heading) for column in table.columns]
    rows = [[_latex_cell(cell, column) for cell, column in table.cells(row)] for row in table.rows]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(table.title)}. {_latex(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _latex_row(heads),
        r"\midrule",
        *map(_latex_row, rows),
        r"\bottomrule",
        r"\end{tabular}}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


TABLE_FORMATS: dict[str, Callable[[Table], str]] = {"md": to_markdown, "csv": to_csv, "tex": to_latex}
"""By file ending."""


def write_tables(tables: Iterable[Table], folder: Path) -> list[Path]:
    """Write each table as `<name>.md`, `.csv` and `.tex` to a folder, which is created if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(
            f"tables must be written to a folder, got {folder}, which cannot be created: {error}"
        ) from None
    written = []
    for table in tables:
        for ending, form in TABLE_FORMATS.items():
            written.append(folder / f"{table.name}.{ending}")
            write_target(written[-1], partial(_write_text, form(table)), "--tables")
    return written


def _write_text(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _bold(text: str, cell: Cell) -> str:
    return f"**{text}**" if cell.strong else text


def _csv(value: float | str | None) -> float | str:
    """Return a value for a spreadsheet."""
    if isinstance(value, str):
        return spreadsheet_text(value)
    return "" if value is None else value


def _latex_row(cells: Sequence[str]) -> str:
    r"""Join cells to a row; `[` or `*` at its start would be read as an argument of the `\\` before it."""
    row = " & ".join(cells)
    return rf"{'{}' if row.startswith(('[', '*')) else ''}{row} \\"


def _latex(text: str) -> str:
    return "".join(LATEX_ESCAPES.get(character, character) for character in " ".join(text.split()))


def _latex_cell(cell: Cell, column: Column) -> str:
    """Write a cell with a bold mean if it is the best, and a true minus instead of a hyphen."""
    if isinstance(cell.value, str) or cell.value is None:
        text = _latex(show(cell, column))
        return rf"\textbf{{{text}}}" if cell.strong else text
    mean = show(Cell(cell.value), column).replace("-", "$-$")
    mean = rf"\textbf{{{mean}}}" if cell.strong else mean
    return mean if cell.std is None else rf"{mean} $\pm$ {show(Cell(cell.std), column)}"
