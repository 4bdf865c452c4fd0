"""Drawing of a trained network as SVG: inputs, stages, exits, the weight of each prediction, and what was pruned away.

The drawing is narrow, so that a phone shows it without scrolling. Colours are attributes: a program that knows no style
sheets draws it on white paper, and a file gets a style sheet with the dark colours for browsers in dark mode.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from sae.analysis.network_plan import NetworkPlan, PlanPart, PlanRow
from sae.config.methods import all_kinds
from sae.core.wording import short_count
from sae.report.figures.theme import DARK, ON_PAPER, Inks, as_variable

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MARGIN, GAP = 10, 18
TRUNK, EXIT, COLUMN = 118, 94, 36
"""Widths: of parts, of exits, and of the column of an input or a member."""
BOX, ROW = 40, 66
"""Heights of a box, and of a row with its weights."""
CELL, CELL_ROW = 22, 32
LABELS, NETWORK = 68, 56
"""Of an ensemble: heights of the box of a stage and of its row, widths of the labels and of a network's column."""
NARROWEST = 350
MOST_COLUMNS, MOST_NETWORKS = 8, 5
"""Columns that are drawn; of more the rest is counted."""
LETTER, LINE = 6.1, 17
"""Mean width of a small letter, and the height of a line."""
DARK_INKS = Inks("#E6E7E9", "#A2A8B0", "#33383E", "#15171A")
"""The colours of a dark page, for files that are opened by themselves."""


@dataclass(frozen=True)
class Pen:
    """A drawing in progress, and the colours to draw with."""

    inks: Inks
    accent: str
    marks: list[str]

    def line(self, *points: tuple[float, float], is_used: bool = True, is_quiet: bool = False) -> None:
        """Draw a line through points; what was pruned away is dashed."""
        path = "M" + "L".join(f"{x:g},{y:g}" for x, y in points)
        colour = self.inks.faint if is_quiet else self.inks.quiet
        self.marks.append(f'<path d="{path}" fill="none" stroke="{colour}"{"" if is_used else DASHED}/>')

    def box(self, x: float, y: float, width: float, height: float, is_used: bool = True) -> None:
        """Draw a box; what was pruned away is dashed."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"'
        if is_used:
            tint = f'fill="{self.accent}" fill-opacity="0.1" stroke="{self.accent}"'
            self.marks.append(f"<rect {place} {tint}/>")
        else:
            self.marks.append(f'<rect {place} fill="none" stroke="{self.inks.quiet}" stroke-opacity="0.7"{DASHED}/>')

    def bar(self, x: float, y: float, width: float) -> None:
        """Draw a thin bar, whose length is a share."""
        self.marks.append(f'<rect x="{x:g}" y="{y:g}" width="{width:.2f}" height="3" fill="{self.accent}"/>')

    def dot(self, x: float, y: float, weight: float) -> None:
        """Draw a prediction: its area is its weight, and a ring stands for one that is not used."""
        if weight > 0:
            radius = max(2.5, 12 * weight**0.5)
            self.marks.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:.2f}" fill="{self.accent}"/>')
        else:
            paper = self.inks.paper or "var(--paper)"
            ring = f'fill="{paper}" stroke="{self.inks.quiet}" stroke-opacity="0.7"'
            self.marks.append(f'<circle cx="{x:g}" cy="{y:g}" r="3" {ring}/>')

    def text(
        self, x: float, y: float, text: str, *, size: float = 11, bold: bool = False, quiet: bool = False, at: str = ""
    ) -> None:
        """Write a line of text; `at` is `middle` for one that is centred at x."""
        anchor = f' text-anchor="{at}"' if at else ""
        weight = ' font-weight="600"' if bold else ""
        colour = self.inks.quiet if quiet else self.inks.text
        self.marks.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}"{anchor}{weight} fill="{colour}">{escape(text)}</text>'
        )


DASHED = ' stroke-dasharray="4 3"'


def draw_file(plan: NetworkPlan) -> str:
    """Draw a network for a file: with a heading, on white paper, and on dark paper in a browser in dark mode."""
    inks = zip(
        (ON_PAPER.text, ON_PAPER.quiet, ON_PAPER.faint, ON_PAPER.paper),
        (DARK_INKS.text, DARK_INKS.quiet, DARK_INKS.faint, DARK_INKS.paper),
        strict=True,
    )
    accent = all_kinds()[plan.kind].colour
    rules = "".join(
        f'[{key}="{light}"]{{{key}:{dark}}}'
        for light, dark in (*inks, (accent, DARK.get(accent.upper(), accent)))
        for key in ("fill", "stroke")
    )
    style = f"<style>@media screen and (prefers-color-scheme: dark){{{rules}}}</style>"
    return draw_network(plan, ON_PAPER, accent, heading=True, style=style) + "\n"


def draw_on_page(plan: NetworkPlan, inks: Inks) -> str:
    """Draw a network for the page, in colours that follow its theme."""
    return draw_network(plan, inks, str(as_variable(all_kinds()[plan.kind].colour)))


def draw_network(plan: NetworkPlan, inks: Inks, accent: str, *, heading: bool = False, style: str = "") -> str:
    """Draw a network as an SVG element.

    Args:
        plan: The network.
        inks: Colours of texts, lines and paper.
        accent: The colour of what is used.
        heading: Whether to write what it is above the drawing.
        style: A style element.
    """
    pen = Pen(inks, accent, [])
    width = _width(plan)
    top = _draw_heading(pen, plan, width) if heading else float(MARGIN)
    bottom = _draw_networks(pen, plan, top) if plan.networks else _draw_rows(pen, plan, top)
    height = _draw_key(pen, plan, bottom, width)
    paper = f'<rect width="{width:g}" height="{height:g}" fill="{inks.paper}"/>' if inks.paper else ""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    label = escape(f"Drawing of {plan.name}: {plan.description}")
    marks = "\n".join(pen.marks)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}" font-family="{FONT}">'
        f"{style}{paper}\n{marks}\n</svg>"
    )


def _width(plan: NetworkPlan) -> float:
    columns = len(_shown(plan))
    if plan.networks:
        more = 80 if len(plan.columns) > columns else 0
        return max(NARROWEST, 2 * MARGIN + LABELS + columns * NETWORK + more)
    return max(NARROWEST, 2 * MARGIN + TRUNK + GAP + EXIT + GAP / 2 + columns * COLUMN)


def _shown(plan: NetworkPlan) -> range:
    """Return the columns that are drawn."""
    most = MOST_NETWORKS if plan.networks else MOST_COLUMNS
    return range(min(len(plan.columns), most))


def _draw_heading(pen: Pen, plan: NetworkPlan, width: float) -> float:
    pen.text(MARGIN, 26, plan.name, size=15, bold=True)
    return _lines(pen, [plan.description], 45, width, quiet=True) + 8


def _lines(pen: Pen, texts: Iterable[str], y: float, width: float, *, quiet: bool) -> float:
    """Write texts below one another, wrapped to the width; return where the next line begins."""
    for text in texts:
        for line in textwrap.wrap(text, int((width - 2 * MARGIN) / LETTER)):
            pen.text(MARGIN, y, line, size=12, quiet=quiet)
            y += LINE
    return y


def _draw_rows(pen: Pen, plan: NetworkPlan, top: float) -> float:
    """Draw one network, from its sample down, with a column for each input or member; return where it ends."""
    columns = _shown(plan)
    xs = [MARGIN + TRUNK + GAP + EXIT + GAP / 2 + COLUMN * (column + 0.5) for column in columns]
    middle = MARGIN + TRUNK / 2
    first = _draw_samples(pen, plan, middle, top)
    ys = [first + ROW * number for number in range(len(plan.rows))]
    last = ys[-1] + BOX + 40  # the box of the mean
    exits = [(y, row) for y, row in zip(ys, plan.rows, strict=True) if row.exit]
    _draw_column_heads(pen, plan, xs, exits[0][0] + BOX / 2 - 34 if exits else first)
    for column, x in zip(columns, xs, strict=True):
        used = [y for y, row in exits if row.exit and row.exit.weights[column] > 0]
        if used:  # an input may have been dropped
            pen.line((x, used[0] + BOX / 2), (x, last), is_quiet=True)
    for number, (y, row) in enumerate(zip(ys, plan.rows, strict=True)):
        if number + 1 < len(plan.rows):
            pen.line((middle, y + BOX), (middle, ys[number + 1]), is_used=plan.rows[number + 1].part.is_used)
        _draw_part(pen, plan, row.part, MARGIN, y, TRUNK)
        _draw_exit(pen, plan, row, y, xs)
    left = MARGIN + TRUNK + GAP
    _draw_mean(pen, plan, left, last, _width(plan) - MARGIN - left)
    return last + BOX


def _draw_samples(pen: Pen, plan: NetworkPlan, middle: float, top: float) -> float:
    """Draw the sample, once for each input, above the stem; return where the stem begins."""
    times = plan.num_inputs if plan.num_inputs > 1 else plan.passes
    drawn = min(times, MOST_COLUMNS)
    first = top + 54
    for number in range(drawn):
        x = middle + (number - (drawn - 1) / 2) * min(22, TRUNK / drawn)
        pen.box(x - 8, top + 18, 16, 16)
        pen.line((x, top + 34), (middle if drawn > 1 else x, first))
    word = "the sample" if times == 1 else f"the sample, {times} times"
    pen.text(middle, top + 10, word, at="middle", quiet=True)
    return first


def _draw_column_heads(pen: Pen, plan: NetworkPlan, xs: Sequence[float], y: float) -> None:
    """Name the columns: their word once, and a number above each."""
    if len(plan.columns) == 1:
        return
    word = plan.columns[0].rsplit(" ", 1)[0]
    more = len(plan.columns) - len(xs)
    pen.text((xs[0] + xs[-1]) / 2, y - 8, word + (f" (and {more} more)" if more else ""), at="middle", quiet=True)
    for number, x in enumerate(xs, start=1):
        pen.text(x, y + 8, str(number), at="middle", bold=True)


def _draw_part(pen: Pen, plan: NetworkPlan, part: PlanPart, x: float, y: float, width: float) -> None:
    """Draw a part with its name, its costs and its share of the FLOPs."""
    pen.box(x, y, width, BOX, part.is_used)
    pen.text(x + width / 2, y + 16, part.label, size=12, bold=part.is_used, quiet=not part.is_used, at="middle")
    if part.cost is None:
        return
    text = f"{short_count(part.cost.params)} · {short_count(part.cost.flops)}"
    pen.text(x + width / 2, y + 30, text, quiet=True, at="middle")
    if part.is_used and plan.used.flops:
        pen.bar(x + 6, y + BOX - 5, (width - 12) * part.cost.flops / plan.used.flops)


def _draw_exit(pen: Pen, plan: NetworkPlan, row: PlanRow, y: float, xs: Sequence[float]) -> None:
    """Draw the exit behind a part, and its predictions on a line to the right of it."""
    if row.exit is None:
        return
    middle, left = y + BOX / 2, MARGIN + TRUNK + GAP
    is_used = any(row.exit.weights)
    drawn = [x for x, weight in zip(xs, row.exit.weights, strict=False) if weight > 0] or list(xs)
    pen.line((MARGIN + TRUNK, middle), (left, middle), is_used=is_used)
    if row.exit.part.cost is None:
        pen.line((left, middle), (left + EXIT, middle), is_used=is_used)
    else:
        _draw_part(pen, plan, row.exit.part, left, y, EXIT)
    pen.line((left + EXIT, middle), (drawn[-1], middle), is_used=is_used)
    for x, weight in zip(xs, row.exit.weights, strict=False):
        pen.dot(x, middle, weight)
        if weight > 0:
            pen.text(x, middle + 25, _weight(weight), at="middle")


def _weight(weight: float) -> str:
    return "1" if weight > 0.9995 else f"{weight:.2f}" if weight >= 0.0095 else f"{weight:.3f}"


def _draw_networks(pen: Pen, plan: NetworkPlan, top: float) -> float:
    """Draw networks that share nothing side by side; return where they end."""
    xs = [MARGIN + LABELS + NETWORK * (column + 0.5) for column in _shown(plan)]
    middle, first = (xs[0] + xs[-1]) / 2, top + 58
    labels = ["stem", *(f"stage {number}" for number in range(1, plan.depth + 1)), "exit"]
    pen.text(middle, top + 10, "the sample", at="middle", quiet=True)
    pen.box(middle - 8, top + 18, 16, 16)
    for number, label in enumerate(labels):
        pen.text(MARGIN, first + number * CELL_ROW + CELL / 2 + 4, label, quiet=True)
    end, offsets = first + len(labels) * CELL_ROW, (40, 55, 70, 85)
    for column, (x, network, share) in enumerate(zip(xs, plan.networks, plan.shares, strict=False), start=1):
        pen.line((middle, top + 34), (x, first))
        for number in range(len(labels)):
            y = first + number * CELL_ROW
            pen.box(x - 20, y, 40, CELL)
            pen.line((x, y + CELL), (x, y + CELL_ROW))
        pen.dot(x, end + 12, share)
        cost = [short_count(network.cost.params), short_count(network.cost.flops)] if network.cost else []
        for offset, text in zip(offsets, [str(column), _weight(share), *cost], strict=False):
            pen.text(x, end + offset, text, at="middle", bold=offset == offsets[0])
    word, more = plan.columns[0].rsplit(" ", 1)[0], len(plan.columns) - len(xs)
    for offset, label in zip(offsets, (word, "weight", "parameters", "FLOPs"), strict=True):
        pen.text(MARGIN, end + offset, label, quiet=True)
    if more:
        pen.text(xs[-1] + NETWORK / 2, first + CELL / 2 + 4, f"and {more} more", quiet=True)
    mean = end + offsets[-1] + 16
    _draw_mean(pen, plan, xs[0] - 20, mean, max(180, xs[-1] - xs[0] + 40))
    return mean + BOX


def _draw_mean(pen: Pen, plan: NetworkPlan, x: float, y: float, width: float) -> None:
    pen.box(x, y, width, BOX)
    pen.text(x + width / 2, y + 17, "prediction", size=12, bold=True, at="middle")
    number = plan.num_predictions
    text = "of one exit" if number == 1 else f"weighted mean of {number} predictions"
    pen.text(x + width / 2, y + 31, text, at="middle", quiet=True)


def _draw_key(pen: Pen, plan: NetworkPlan, y: float, width: float) -> float:
    """Write the sums, and how to read the drawing; return where it ends."""
    y = _lines(pen, _sums(plan), y + 26, width, quiet=False)
    return _lines(pen, _key(plan), y + 4, width, quiet=True) - LINE + MARGIN + 4


def _sums(plan: NetworkPlan) -> Iterator[str]:
    yield f"Used: {_exactly(plan.used.params, plan.used.flops)}"
    if plan.pruned.params or plan.pruned.flops:
        yield f"Pruned away: {_exactly(plan.pruned.params, plan.pruned.flops)}"
    yield f"As shipped: {_exactly(plan.used.shipped_params, plan.used.shipped_flops)}"


def _exactly(params: int, flops: int) -> str:
    return f"{params:,} parameters, {flops:,} FLOPs"


def _key(plan: NetworkPlan) -> Iterator[str]:
    """Say what the marks mean, as far as they occur."""
    if not plan.networks:
        yield "Boxes: parameters · FLOPs per sample; the bar is the share of the FLOPs."
    if plan.passes > 1:
        yield f"Everything runs {plan.passes} times for one sample; FLOPs are those of all passes."
    weights = [weight for row in plan.rows if row.exit for weight in row.exit.weights]
    what = "how strongly its input prefers the exit (θ)" if plan.has_theta else "its weight in the mean"
    yield f"Dots: predictions; the area is {what}."
    if 0 in weights:
        yield "Rings and dashed boxes: trained, but pruned away."
